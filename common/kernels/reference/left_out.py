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
        without = _mean_square(rated[:, :1], wanted, np.array([own * bias_ridge]), left_out)
        for candidate, ridge in enumerate(ridges):
            pull = np.full(rated.shape[1], own * ridge)
            pull[0] = own * bias_ridge
            out[row, candidate] = _mean_square(rated, wanted, pull, left_out) - without


def _mean_square(rated: FloatArray, wanted: FloatArray, pull: FloatArray, left_out: slice) -> float:
    """Not finite where rounding leaves nothing, with absurd factors; an error would be no answer."""
    try:
        inverse = np.linalg.inv(rated.T @ rated + np.diag(pull))
    except np.linalg.LinAlgError:
        return np.nan
    seen = rated[left_out]
    leverages = np.einsum("pa,ab,pb->p", seen, inverse, seen)
    residuals = wanted[left_out] - seen @ (inverse @ (rated.T @ wanted))
    with np.errstate(all="ignore"):
        return float(np.mean((residuals / (1.0 - leverages)) ** 2))
