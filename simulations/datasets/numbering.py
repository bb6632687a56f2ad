"""The order of ids and of rows."""

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IndexArray, IntArray


def id_order(words: list[str]) -> list[int]:
    """Positions that sort ids: by number when all are plain whole numbers (so 9 before 10), else as text."""
    if all(word.isascii() and word.isdigit() and (word == "0" or word[0] != "0") for word in words):
        return sorted(range(len(words)), key=lambda position: int(words[position]))
    return sorted(range(len(words)), key=words.__getitem__)


def is_sorted(users: IndexArray, items: IndexArray) -> bool:
    """Whether rows strictly ascend by (user, item), so that no pair occurs twice either."""
    same_user = users[1:] == users[:-1]
    later_user = users[1:] > users[:-1]
    return bool(np.all(later_user | (same_user & (items[1:] > items[:-1]))))


def pair_order(users: IndexArray, items: IndexArray) -> IntArray:
    """Stable order of rows by (user, item)."""
    return np.lexsort((items, users))


def first_repeated_row(users: IndexArray, items: IndexArray, order: IntArray) -> int | None:
    """Row of the earliest second occurrence of a (user, item) pair, or None.

    Args:
        users: int32, shape (n_rows,), sorted by ``order``.
        items: int32, shape (n_rows,), sorted by ``order``.
        order: int64, shape (n_rows,): the row that each sorted entry comes from; stable.
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
