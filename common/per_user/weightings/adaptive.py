"""``max(n, 1)^-mu``, normalised so that each user's whole budget is spent."""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.per_user.weightings.weighting import Released, Weighting


def _omega(released: Released) -> FloatArray:
    counts = np.maximum(released.noisy_counts, 1.0)
    return np.asarray(counts**-released.exponent, dtype=np.float64)


WEIGHTING = Weighting(omega=_omega, spend_all=True)
