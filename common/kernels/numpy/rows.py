"""What is computed row by row, in numpy: residuals and the best items."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray

_ENTRIES_AT_ONCE = 1 << 18


def fill_residuals(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    vectors: Float32Array,
    own: Float32Array,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``residuals_of_rows``."""
    rows = np.repeat(np.arange(indptr.size - 1, dtype=np.int32), np.diff(indptr))
    for first in range(0, items.size, _ENTRIES_AT_ONCE):
        part = slice(first, first + _ENTRIES_AT_ONCE)
        mine = own[rows[part]]
        explained = np.einsum("pd,pd->p", vectors[items[part]], mine[:, 1:], dtype=np.float64)
        out[part] = targets[part] - mine[:, 0] - explained


def select(
    scores: Float32Array, exclude_indptr: IntArray, exclude_items: IndexArray, best: IndexArray
) -> None:
    """Fill ``best`` (n, k) from ``scores`` (n, n_items); overwrites the scores of excluded items."""
    rows = np.repeat(np.arange(scores.shape[0]), np.diff(exclude_indptr))
    scores[rows, exclude_items[exclude_indptr[0] : exclude_indptr[-1]]] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, : best.shape[1]]
    candidate = np.take_along_axis(scores, order, axis=1) > -np.inf
    best[:] = -1
    best[:, : order.shape[1]] = np.where(candidate, order, -1)
