"""What is computed row by row, and exact sums over the entries of rows, in numpy."""

from typing import Final

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray, ShortArray

# |w v v| <= 2^15 2^12 2^12 and |w r v| <= 2^15 2^15 2^12, so 2^11 of them stay within 2^53: exact in float64.
EXACT_ENTRIES: Final = 1 << 11


def sum_rows(
    indptr: IntArray,
    users: IndexArray,
    entries: IntArray,
    vectors: ShortArray,
    weights: ShortArray,
    responses: ShortArray,
    start: int,
    stop: int,
    squares: IntArray,
    linear: IntArray,
) -> None:
    """Fill ``squares[start:stop]`` (unless it has no columns) and ``linear[start:stop]``."""
    upper = np.triu_indices(vectors.shape[1])
    squares[start:stop] = 0
    linear[start:stop] = 0
    for item in range(start, stop):
        for first in range(indptr[item], indptr[item + 1], EXACT_ENTRIES):
            chunk = slice(first, min(first + EXACT_ENTRIES, int(indptr[item + 1])))
            rated = vectors[users[chunk]].astype(np.float64)
            weighted = rated * weights[entries[chunk], np.newaxis]
            linear[item] += (weighted.T @ responses[entries[chunk]]).astype(np.int64)
            if squares.shape[1]:
                squares[item] += (weighted.T @ rated)[upper].astype(np.int64)


_ROWS_AT_ONCE = 8192


def add_pairs(
    indptr: IntArray, items: IndexArray, responses: ShortArray, n_items: int, out: IntArray
) -> None:
    """Fill ``out``; arguments as in ``pair_sums``. A whole matrix of all pairs is formed beside it."""
    from scipy.sparse import csr_array  # slow to import, and few runs ask for pairs

    total = np.zeros((n_items, n_items), dtype=np.int64)
    for first in range(0, indptr.size - 1, _ROWS_AT_ONCE):
        bounds = indptr[first : first + _ROWS_AT_ONCE + 1]
        part = slice(int(bounds[0]), int(bounds[-1]))
        values = responses[part].astype(np.int64)
        block = csr_array((values, items[part], bounds - bounds[0]), shape=(bounds.size - 1, n_items))
        pairs = (block.T @ block).tocoo()
        total[pairs.row, pairs.col] += pairs.data
    out[:] = total[np.triu_indices(n_items)]


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
