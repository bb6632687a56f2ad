"""Leave-one-out errors one person at a time, through numpy's inverse."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray


def errors_of_rows(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridges: FloatArray,
    growth: FloatArray,
    bias_ridge: float,
    most: int,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``left_out_errors``."""
    for row in np.flatnonzero(np.diff(indptr) > 1):
        entries = slice(indptr[row], indptr[row + 1])
        wanted = targets[entries].astype(np.float64)
        rated = np.column_stack([np.ones(wanted.size), factors[items[entries]].astype(np.float64)])
        own = growth[row]
        left_out = slice(0, None, -(-wanted.size // most))
        without = _mean_squares(rated[:, :1], wanted, np.array([[own * bias_ridge]]), left_out)
        pulls = np.repeat((own * ridges)[:, None], rated.shape[1], axis=1)
        pulls[:, 0] = own * bias_ridge
        out[row] = _mean_squares(rated, wanted, pulls, left_out) - without


def _mean_squares(rated: FloatArray, wanted: FloatArray, pulls: FloatArray, left_out: slice) -> FloatArray:
    """One for each row of ``pulls``; not finite where rounding leaves nothing: an error would be no answer."""
    systems = (rated.T @ rated) + pulls[:, None, :] * np.eye(rated.shape[1])
    inverses = _inverses(systems)
    seen = rated[left_out]
    leverages = np.einsum("pa,cab,pb->cp", seen, inverses, seen)
    models = inverses @ (rated.T @ wanted)
    residuals = wanted[left_out] - (seen @ models[:, :, None])[:, :, 0]
    with np.errstate(all="ignore"):
        found: FloatArray = np.mean((residuals / (1.0 - leverages)) ** 2, axis=1)
    return found


def _inverses(systems: FloatArray) -> FloatArray:
    """NaN for those that have none."""
    try:
        found: FloatArray = np.asarray(np.linalg.inv(systems), dtype=np.float64)
    except np.linalg.LinAlgError:
        if len(systems) == 1:
            return np.full_like(systems, np.nan)
        found = np.concatenate([_inverses(system[None]) for system in systems])
    return found
