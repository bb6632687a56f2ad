"""Products of all pairs of a row as products of sparse matrices, some thousand rows at a time."""

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray, ShortArray

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
