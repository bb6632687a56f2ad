"""From the ids of a file to row numbers, and from rows in any order to sorted rows, in linear time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedboard.common.arrays import BoolArray, IndexArray
from fedboard.common.cohort import row_blocks

# An id range this many times wider than the column still fits a lookup table cheaply.
TABLE_ROOM = 4

_ROWS_AT_ONCE = 1 << 18
"""Stay in cache while they are sorted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Numbered:
    """A column of ids, replaced by numbers."""

    codes: IndexArray
    """int32, shape (n_rows,): position in ``ids``."""
    ids: NDArray[Any]
    """Shape (n_ids,): the distinct ids, ascending; int64 or text."""

    def only(self, rows: BoolArray) -> "Numbered":
        """Some of the rows, numbered anew: an id without a row is none."""
        used = np.zeros(self.ids.size, dtype=np.bool_)
        used[self.codes[rows]] = True
        table = np.cumsum(used, dtype=np.int32) - np.int32(1)
        return Numbered(codes=table[self.codes[rows]], ids=self.ids[used])


def number_integers(column: NDArray[Any]) -> Numbered:
    """Number integer ids in ascending order, with a lookup table where the id range allows one.

    Args:
        column: integers, shape (n_rows,), at least one.
    """
    lowest = int(column.min())
    span = int(column.max()) - lowest + 1
    if span > TABLE_ROOM * column.size + 2**20:
        ids, codes = np.unique(column, return_inverse=True)
        return Numbered(codes=codes.astype(np.int32), ids=ids.astype(np.int64))
    offsets = column if lowest == 0 else column - lowest
    seen = np.zeros(span, dtype=np.bool_)
    seen[offsets] = True
    table = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return Numbered(codes=table[offsets], ids=np.flatnonzero(seen).astype(np.int64) + lowest)


def number_texts(codes: IndexArray, words: list[str]) -> Numbered:
    """Number text ids: in numeric order when all of them are plain whole numbers, else alphabetically.

    Args:
        codes: int32, shape (n_rows,), positions in ``words``.
        words: the distinct ids in any order; all of them occur.
    """
    order = np.array(id_order(words), dtype=np.int64)
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return Numbered(codes=rank[codes], ids=np.array(words, dtype=np.str_)[order])


def id_order(words: list[str]) -> list[int]:
    """Positions that sort ids: by number when all are plain whole numbers (so 9 before 10), else as text."""
    if all(word.isascii() and word.isdigit() and (word == "0" or word[0] != "0") for word in words):
        return sorted(range(len(words)), key=lambda position: int(words[position]))
    return sorted(range(len(words)), key=words.__getitem__)


def text_order(words: Any) -> NDArray[np.int64]:
    """The same of a pyarrow array of texts, without an object for each: int64, shape (n_words,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = words  # UTF-8 sorts by bytes as text does by characters
    if pc.all(pc.match_substring_regex(words, r"\A(?:0|[1-9][0-9]*)\z"), min_count=0).as_py():
        try:
            keys = words.cast(pa.uint64())
        except pa.ArrowInvalid:  # longer numbers than it holds
            return np.array(id_order(words.to_pylist()), dtype=np.int64)
    return np.asarray(pc.sort_indices(keys)).astype(np.int64)


def counting_order(keys: IndexArray, n_keys: int) -> IndexArray:
    """Stable order of small integer keys by counting sort, in O(n + n_keys).

    A matrix with one entry per row, in column ``keys[row]``, turned from rows to columns lists its rows
    sorted by key: scipy does that by counting.

    Args:
        keys: int32, shape (n,), in ``0..n_keys - 1``.
        n_keys: number of possible keys.

    Returns:
        int32, shape (n,): ``keys[result]`` ascends, equal keys in their old order.
    """
    marks = np.zeros(keys.size, dtype=np.int8)
    rows = np.arange(keys.size + 1, dtype=np.int32)
    by_key = sparse.csr_array((marks, keys, rows), shape=(keys.size, n_keys)).tocsc()
    return np.asarray(by_key.indices, dtype=np.int32)


def is_sorted(users: IndexArray, items: IndexArray) -> bool:
    """Whether rows strictly ascend by (user, item), so that no pair occurs twice either."""
    same_user = users[1:] == users[:-1]
    later_user = users[1:] > users[:-1]
    return bool(np.all(later_user | (same_user & (items[1:] > items[:-1]))))


def pair_order(users: IndexArray, items: IndexArray, *, n_users: int, n_items: int) -> IndexArray:
    """Stable order of rows by (user, item): two counting sorts, least significant key first.

    Rows that ascend by user already, as those of most files do, are sorted a block of users at a time, in cache.
    """
    if np.all(users[1:] >= users[:-1]):
        return _order_within_users(users, items, n_users=n_users, n_items=n_items)
    by_item = counting_order(items, n_items)
    by_user = counting_order(users[by_item], n_users)
    return by_item[by_user]


def _order_within_users(users: IndexArray, items: IndexArray, *, n_users: int, n_items: int) -> IndexArray:
    """The same where users ascend: their matrix, turned to items and back, has each user's rows sorted."""
    ends = np.zeros(n_users + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=n_users), out=ends[1:])
    order = np.empty(users.size, dtype=np.int32)
    for start, stop in row_blocks(ends, max(_ROWS_AT_ONCE, n_items)):
        first, last = int(ends[start]), int(ends[stop])
        places, bounds = np.arange(first, last, dtype=np.int32), (ends[start : stop + 1] - first)
        rows = sparse.csr_array(
            (places, items[first:last], bounds.astype(np.int32)), shape=(stop - start, n_items)
        )
        order[first:last] = rows.tocsc().tocsr().data
    return order


def first_repeated_row(users: IndexArray, items: IndexArray, order: IndexArray) -> int | None:
    """Row of the earliest second occurrence of a (user, item) pair, or None.

    Args:
        users: int32, shape (n_rows,), sorted by ``order``.
        items: int32, shape (n_rows,), sorted by ``order``.
        order: int32, shape (n_rows,): the row that each sorted entry comes from; stable.
    """
    repeated = (users[1:] == users[:-1]) & (items[1:] == items[:-1])
    if not repeated.any():
        return None
    return int(order[1:][repeated].min())


def latest_of_repeated(
    users: IndexArray, items: IndexArray, times: NDArray[np.int64] | None, values: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Which rows to keep so that each (user, item) pair has one: the latest, of several at one time the largest.

    Which it is, depends on the rows of that user alone, and not on their order.

    Args:
        users: int32, shape (n_rows,), sorted with ``items``.
        items: int32, shape (n_rows,).
        times: int64, shape (n_rows,); None: all at one time.
        values: float32, shape (n_rows,).

    Returns:
        Boolean, shape (n_rows,).
    """
    same = (users[1:] == users[:-1]) & (items[1:] == items[:-1])
    kept: NDArray[np.bool_] = ~(np.append(same, False) | np.append(False, same))
    rows = np.flatnonzero(~kept)
    when = () if times is None else (times[rows],)
    ranked = rows[np.lexsort((values[rows], *when, items[rows], users[rows]))]
    last = np.append((np.diff(users[ranked]) != 0) | (np.diff(items[ranked]) != 0), True)[: ranked.size]
    kept[ranked[last]] = True
    return kept
