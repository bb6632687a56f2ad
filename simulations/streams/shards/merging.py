"""Runs, merged: users in order, all of each, their items in order; what is read ahead of all runs is bounded."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, IndexArray
from fedboard.simulations.datasets.id_keys import Kind, id_keys
from fedboard.simulations.datasets.numbering import (
    first_repeated_row,
    is_sorted,
    latest_of_repeated,
    pair_order,
)
from fedboard.simulations.streams.shards.item_numbers import FinalItems
from fedboard.simulations.streams.shards.runs import Run, RunCursor, UserPart
from fedboard.simulations.streams.shards.user_order import UserOrder, plain, sorted_distinct
from fedboard.simulations.streams.shards.writing import SortedUsers

_IDS_AT_ONCE = 1 << 16
"""As objects all of them would take several times as much."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MergeRules:
    """What holds for all users that are merged."""

    order: UserOrder
    items: FinalItems
    repeats: bool
    """Whether a pair may occur several times: the latest counts."""
    refuse_repeated: Callable[[str, str], None]
    """Called with the ids of user and item of a pair that occurs twice and must not; raises ``InputError``."""


def merged(runs: Sequence[Run], rules: MergeRules, *, rows_at_once: int) -> Iterator[SortedUsers]:
    """All users of some runs, in order, some at a time.

    Args:
        runs: on disk, of one order.
        rules: what holds for all.
        rows_at_once: how many rows are read ahead of all runs together; a user who has more is taken whole.

    Raises:
        InputError: a pair occurs twice that must not.
    """
    cursors = [RunCursor(run) for run in runs]
    each = max(rows_at_once // max(len(runs), 1), 1)
    while True:
        for cursor in cursors:
            cursor.fill(each)
        cursors = [cursor for cursor in cursors if not cursor.done]
        if not cursors:
            return
        lasts = [last for cursor in cursors if (last := cursor.last) is not None]
        frontier = min(lasts, key=lambda last: last.as_py()) if lasts else None
        yield _together([cursor.take(frontier) for cursor in cursors], rules)


def _together(parts: list[UserPart], rules: MergeRules) -> SortedUsers:
    """Users that are in one or several runs, each once, with all rows."""
    import pyarrow as pa

    ids, places = sorted_distinct(pa.concat_arrays([part.ids for part in parts]))
    users = np.repeat(places, np.concatenate([part.counts for part in parts]))
    first_numbers = np.concatenate([part.items for part in parts])
    items = rules.items.numbers[first_numbers]
    columns: dict[str, NDArray[Any]] = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
    }
    values, times = columns["values"], columns.get("times")
    if not is_sorted(users, items):
        order = pair_order(users, items, n_users=len(ids), n_items=rules.items.ids.size)
        users, items, values = users[order], items[order], values[order]
        times = None if times is None else times[order]
        kept = _kept(users, items, values, times, order=order, rules=rules, ids=ids)
        if kept is not None:
            users, items, values = users[kept], items[kept], values[kept]
            times = None if times is None else times[kept]
    return SortedUsers(
        keys=_keys(plain(ids, rules.order)),
        counts=np.bincount(users, minlength=len(ids)).astype(np.int64),
        items=items,
        values=values,
        times=times,
    )


def _keys(ids: Any) -> BitArray:
    parts = (ids[start : start + _IDS_AT_ONCE].to_pylist() for start in range(0, len(ids), _IDS_AT_ONCE))
    return id_keys(chain.from_iterable(parts), Kind.USER)


def _kept(
    users: IndexArray,
    items: IndexArray,
    values: Any,
    times: Any,
    *,
    order: IndexArray,
    rules: MergeRules,
    ids: Any,
) -> Any:
    """Which rows to keep, where a pair is there several times; None: all."""
    repeated = first_repeated_row(users, items, order)
    if repeated is None:
        return None
    if not rules.repeats:
        at = int(np.flatnonzero(order == repeated)[0])
        user = plain(ids, rules.order)[int(users[at])].as_py()
        rules.refuse_repeated(str(user), str(rules.items.ids[items[at]]))
    return latest_of_repeated(users, items, times, values)
