"""Krichene et al. (2023), eq. 19 and 20: adaptive-clipped with counts increased by their accuracy s."""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.per_user.weightings.adaptive_clipped import on_scale
from fedboard.common.per_user.weightings.weighting import Released, Weighting


def _omega(released: Released) -> FloatArray:
    return on_scale(np.maximum(released.noisy_counts, 1.0) + released.accuracy, released)


WEIGHTING = Weighting(omega=_omega, needs_population=True)
