"""The k items of each user with the smallest private counts, 1 / sqrt k each (Chien et al. 2021)."""

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.per_user.weightings.choosing import smallest_in_row
from fedboard.common.per_user.weightings.weighting import Draw, Released, Weighting


def _omega(released: Released) -> FloatArray:
    """1 / (1 + rank of the count, smallest first), so that larger means rarer."""
    return 1.0 / (1.0 + _ranks(released.noisy_counts))


def _choose(draw: Draw) -> BoolArray:
    # Ranks of -omega are distinct, so a tie between items goes to the lower number.
    keys = _ranks(-draw.omega).astype(np.uint64)[draw.cohort.items]
    return smallest_in_row(draw.cohort, keys, draw.items_per_user)


def _ranks(values: FloatArray) -> FloatArray:
    """Rank of each value, smallest first, ties by position; float64, 0 to size - 1."""
    ranks = np.empty(values.size, dtype=np.float64)
    ranks[np.argsort(values, kind="stable")] = np.arange(values.size)
    return ranks


WEIGHTING = Weighting(omega=_omega, choose=_choose)
