"""Which entries of many short lists belong to the list's own set: the step that all ranking metrics share."""

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray, IntArray

_MARKED_BYTES = 1 << 23
"""Size of the table of marks: small enough to stay in cache while one block of rows is looked up."""


def listed_in(lists: IndexArray, indptr: IntArray, items: IndexArray, *, n_items: int) -> BoolArray:
    """Say for each entry of row j of ``lists`` whether it is among ``items[indptr[j]:indptr[j + 1]]``.

    Marks the sets of a block of rows in a table, looks the lists up, wipes the marks: linear, no sort.

    Args:
        lists: int32, shape (n_rows, k), item numbers; a negative number is an empty place and is in no set.
        indptr: int64, shape (n_rows + 1,).
        items: int32, shape (n_entries,), item numbers in 0..n_items - 1.
        n_items: size of the catalogue.

    Returns:
        bool, shape (n_rows, k).
    """
    n_rows = lists.shape[0]
    found = np.zeros(lists.shape, dtype=np.bool_)
    block = max(1, min(n_rows, _MARKED_BYTES // max(1, n_items)))
    marked = np.zeros(block * n_items, dtype=np.bool_)
    for start in range(0, n_rows, block):
        stop = min(start + block, n_rows)
        row_starts = np.arange(stop - start, dtype=np.int64) * n_items
        members = items[indptr[start] : indptr[stop]] + np.repeat(
            row_starts, np.diff(indptr[start : stop + 1])
        )
        marked[members] = True
        found[start:stop] = marked[lists[start:stop] + row_starts[:, None]] & (lists[start:stop] >= 0)
        marked[members] = False
    return found
