"""The releases of private item biases: what each sum covers, its grid, its sensitivity. Data-free."""

import math

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.tasks.bias_private.config import BiasConfig
from fedboard.common.tasks.shared.ratings_config import RatingsConfig
from fedboard.common.tasks.shared.releases import calibrated_request

MOMENT_ONE = 1 << 20
"""1 in the moments, grid units."""
_MOMENTS = 3


def moments_request(shared: RatingsConfig) -> Request:
    """Number of users, sum of their mean ratings, sum of their mean squares.

    Ratings are counted from the centre of the range in units of half its width, so that each of a user's three
    numbers is within [-1, 1], however many ratings she has: no cap.
    """
    return calibrated_request(
        shared,
        SumSource.TOTAL,
        "moments",
        width=_MOMENTS,
        grid_step=1.0 / MOMENT_ONE,
        l2_bound=math.ceil(math.sqrt(_MOMENTS) * MOMENT_ONE),
        same_sign=False,
        covers="users, and of each her mean rating and mean squared rating around the centre of the range",
    )


def moments_of(cohort: Cohort, shared: RatingsConfig) -> IntArray:
    """Each user's part in the moments; int64, shape (n_users, 3). Who rated nothing gives zeros. Private.

    Raises:
        PrivacyError: a rating is not finite.
    """
    apart = (in_range(cohort, shared) - shared.centre) / shared.half_range
    rows, n_users = cohort.user_of_entry(), cohort.n_users
    own = np.maximum(cohort.counts, 1)
    means = np.bincount(rows, weights=apart, minlength=n_users) / own
    squares = np.bincount(rows, weights=apart**2, minlength=n_users) / own
    parts = np.stack([(cohort.counts > 0).astype(np.float64), means, squares], axis=1)
    return np.clip(np.trunc(parts * MOMENT_ONE), -MOMENT_ONE, MOMENT_ONE).astype(np.int64)


def sums_request(settings: BiasConfig, name: str, *, n_items: int, clip_norm: float) -> Request:
    """Weighted residuals per item, the whole part of a user of norm at most ``clip_norm``, in stars."""
    step = residual_bound(settings.shared) / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND)
    return calibrated_request(
        settings.shared,
        SumSource.ITEM_LINEAR,
        name,
        rows=n_items,
        grid_step=step,
        l2_bound=math.floor(clip_norm / step),
        same_sign=False,
        covers="sum of w r per item, r what the board leaves of a rating, each user's part bounded as a whole",
    )


def residual_bound(shared: RatingsConfig) -> float:
    """Bound on one residual: the width of the range; larger ones are clipped."""
    return shared.rating_high - shared.rating_low


def in_range(cohort: Cohort, shared: RatingsConfig) -> FloatArray:
    """Ratings clipped to the public range; float64, shape (n_ratings,). Private.

    Raises:
        PrivacyError: a rating is not finite.
    """
    if not np.isfinite(cohort.ratings).all():
        raise PrivacyError("ratings must be finite numbers; NaN or infinity was refused")
    return np.clip(cohort.ratings.astype(np.float64), shared.rating_low, shared.rating_high)
