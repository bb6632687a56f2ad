"""Private counts to which every user gives the same amount, however many items she has: no cap to tune."""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.per_user.clipping import WEIGHT_ONE
from fedboard.common.tasks.shared.ratings_config import RatingsConfig
from fedboard.common.tasks.shared.releases import calibrated_request


def even_weights(cohort: Cohort) -> FloatArray:
    """1 / sqrt(n_j) on each rating of user j, so that the squares of a row sum to 1.

    Returns:
        float64, shape (n_ratings,). Private.
    """
    return np.repeat(1.0 / np.sqrt(np.maximum(cohort.counts, 1)), cohort.counts)


def even_counts_request(shared: RatingsConfig, *, n_items: int, name: str = "counts") -> Request:
    """``c_i = sum_j w_ij`` for weights whose squares sum to at most 1 for each user."""
    return calibrated_request(
        shared,
        SumSource.ITEM_COUNT,
        name,
        rows=n_items,
        grid_step=1.0 / WEIGHT_ONE,
        l2_bound=WEIGHT_ONE,
        same_sign=True,
        covers="c_i = sum of w per item, w at most 1 / sqrt(ratings of the user)",
    )
