"""The item-major view of user-major rows: for each item, who rated it and where that entry lies."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemIndex:
    """Compressed columns. ``entries[k]`` points into the user-major arrays, ``users[k]`` is that entry's row."""

    indptr: IntArray
    """int64, shape (n_items + 1,)."""
    users: IndexArray
    """int32, shape (n_entries,), ascending within an item."""
    entries: IntArray
    """int64, shape (n_entries,)."""


def index_by_item(indptr: IntArray, items: IndexArray, n_items: int) -> ItemIndex:
    """Transpose the structure of compressed rows.

    scipy's conversion is a counting sort that keeps the order of users within an item; of a matrix whose values
    are the places of the entries it gives both arrays at once.
    """
    from scipy.sparse import csr_array  # slow to import, and a device that sends its rows never needs it

    entries = np.arange(items.size, dtype=np.int64)
    # With bounds of the type of the items scipy does not widen the items.
    bounds = indptr.astype(items.dtype) if items.size <= np.iinfo(items.dtype).max else indptr
    columns = csr_array((entries, items, bounds), shape=(indptr.size - 1, n_items)).tocsc()
    return ItemIndex(
        indptr=columns.indptr.astype(np.int64, copy=False),
        users=columns.indices.astype(np.int32, copy=False),
        entries=columns.data,
    )
