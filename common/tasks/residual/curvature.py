"""Item curvatures that are released, denoised: H_i pulled to c_i M / n as far as their noise demands."""

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.residual.shrinkage import positive_definite

_LEAST_SHARE = 1e-3


def credible_curvature(
    noisy: FloatArray, moment: FloatArray, weighted_counts: FloatArray, stddev: float
) -> FloatArray:
    """``c_i M + k_i (H_i - c_i M)`` with ``k_i = t_i / (t_i + stddev^2)``, made positive definite.

    t_i, the variance of what an item's users differ from the average user, is taken to grow as
    ``a c_i + b c_i^2``, fitted to the noisy matrices. A noisy H_i as it is would make long steps in random
    directions where few users rated.

    Args:
        noisy: H_i, float64, shape (n_items, width, width). Public.
        moment: M / n, float64, shape (width, width).
        weighted_counts: c_i > 0, float64, shape (n_items,).
        stddev: noise deviation of a diagonal entry.

    Returns:
        float64, shape (n_items, width, width).
    """
    prior = weighted_counts[:, None, None] * moment
    differences = noisy - prior
    width = moment.shape[0]
    numbers = width * (width + 1) / 2
    excess = np.einsum("iab,iab->i", differences, differences) / numbers - stddev**2
    variance = np.maximum(_fitted(excess, weighted_counts, stddev), 0.0)
    keep = variance / (variance + stddev**2)
    blended = prior + keep[:, None, None] * differences
    least = _LEAST_SHARE * float(np.trace(moment)) / width
    scaled = positive_definite(blended / weighted_counts[:, None, None], least=least)
    found: FloatArray = scaled * weighted_counts[:, None, None]
    return found


def _fitted(excess: FloatArray, counts: FloatArray, stddev: float) -> FloatArray:
    columns = np.stack([counts, counts**2], axis=1)
    weights = 1.0 / (stddev**2 + (0.03 * counts) ** 2)
    coefficients = np.linalg.lstsq(columns * weights[:, None], excess * weights, rcond=None)[0]
    fitted: FloatArray = columns @ np.maximum(coefficients, 0.0)
    return fitted
