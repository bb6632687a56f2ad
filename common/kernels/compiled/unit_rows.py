"""Rows scaled to unit norm as compiled loops."""

from math import sqrt

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float64", 1)),
    *(INTEGER, writing("float64", 1)),
)
def scale_rows(
    indptr: IntArray, items: IndexArray, item_weights: FloatArray, spend_all: int, out: FloatArray
) -> None:
    """Fill ``out`` (n_entries,); arguments as in ``unit_rows``. Adds along the row, in order."""
    least = 0.0 if spend_all else 1.0
    for row in range(indptr.size - 1):
        own = items[indptr[row] : indptr[row + 1]]
        shares = out[indptr[row] : indptr[row + 1]]
        total = 0.0
        for k in range(own.size):
            weight = item_weights[own[k]]
            shares[k] = weight
            total += weight * weight
        norm = max(sqrt(total), least)
        for k in range(own.size):
            share = shares[k] / norm
            shares[k] = share if share < 1.0 else 1.0  # not min(): it looks for NaN and does not vectorise
