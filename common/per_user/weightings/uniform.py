"""k items of each user at random, 1 / sqrt k each (Chien et al. 2021)."""

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.errors import InputError
from fedboard.common.per_user.weightings.choosing import random_keys, smallest_in_row
from fedboard.common.per_user.weightings.weighting import Draw, Released, Weighting


def _omega(released: Released) -> FloatArray:
    return np.ones(released.noisy_counts.size)


def _choose(draw: Draw) -> BoolArray:
    if draw.seed is None or not 0 <= draw.seed < 1 << 64:
        raise InputError("uniform weights need a seed in 0..2^64 - 1")
    return smallest_in_row(draw.cohort, random_keys(draw.cohort, draw.seed), draw.items_per_user)


WEIGHTING = Weighting(omega=_omega, choose=_choose)
