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
    """Transpose the structure of compressed rows; a stable counting sort, so the result is deterministic."""
    entries = np.argsort(items, kind="stable").astype(np.int64, copy=False)
    users = np.repeat(np.arange(indptr.size - 1, dtype=np.int32), np.diff(indptr))
    by_item = np.zeros(n_items + 1, dtype=np.int64)
    np.cumsum(np.bincount(items, minlength=n_items), out=by_item[1:])
    return ItemIndex(indptr=by_item, users=users[entries], entries=entries)


__all__ = ["ItemIndex", "index_by_item"]
