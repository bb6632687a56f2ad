"""Krichene et al. (2023), eq. 11, 12 and 16: one scale for all, clipped where a user exceeds the budget."""

import math

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.per_user.weightings.weighting import Released, Weighting


def _omega(released: Released) -> FloatArray:
    return on_scale(np.maximum(released.noisy_counts, 1.0), released)


def on_scale(counts: FloatArray, released: Released) -> FloatArray:
    """``omega_i = n_i^-mu / sqrt(sum n^(1 - 2 mu) / (n b))``, so that ``sum n_i omega_i^2 = n b``.

    Args:
        counts: n_i >= 1, float64, shape (n_items,).
        released: has the number of users and the mean budget.
    """
    assert released.population is not None
    total = math.fsum(counts ** (1.0 - 2.0 * released.exponent))
    scale = math.sqrt(released.population * released.mean_budget / total)
    return np.asarray(counts**-released.exponent * scale, dtype=np.float64)


WEIGHTING = Weighting(omega=_omega, needs_population=True)
