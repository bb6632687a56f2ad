"""Rows scaled to unit norm in numpy."""

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray


def scale_rows(
    indptr: IntArray, items: IndexArray, item_weights: FloatArray, spend_all: int, out: FloatArray
) -> None:
    """Fill ``out`` (n_entries,); arguments as in ``unit_rows``. ``bincount`` adds along the row, in order."""
    counts = np.diff(indptr)
    rows = np.repeat(np.arange(counts.size), counts)
    weights = item_weights[items]
    norms = np.sqrt(np.bincount(rows, weights=weights * weights, minlength=counts.size))
    if not spend_all:
        norms = np.maximum(norms, 1.0)
    np.minimum(weights / norms[rows], 1.0, out=out)
