"""Rows on disk, sorted by user: what fits into memory at a time becomes a run, and runs are merged.

A run is a pyarrow file of its users (id, and how many rows), in order, and a plain file for each column of its
rows, user by user. Private, in a private folder; gone when the shards are made, or are not made.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import open_private
from fedboard.common.arrays import Float32Array, IndexArray, IntArray
from fedboard.simulations.datasets.numbering import counting_order
from fedboard.simulations.streams.shards.user_order import UserOrder, kept_as, plain, sorted_distinct
from fedboard.simulations.streams.stream import cut

_IDS, _COUNTS = "id", "rows"
_ROWS_AT_ONCE = 1 << 14
"""Of the users that are read ahead together: else few users with many rows would be all of a run."""
_COLUMNS: dict[str, "np.dtype[Any]"] = {
    "items": np.dtype(np.int32),
    "values": np.dtype(np.float32),
    "times": np.dtype(np.int64),
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UserPart:
    """Some users, in order, and the rows of each. Private."""

    ids: Any
    """A pyarrow array, shape (n_users,), as the order keeps them."""
    counts: IntArray
    """int64, shape (n_users,): rows of each."""
    items: IndexArray
    """int32, shape (n_rows,): numbers as they came."""
    values: Float32Array
    times: IntArray | None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Those of rows."""
        timed = {} if self.times is None else {"times": self.times}
        return {"items": self.items, "values": self.values, **timed}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A sorted run on disk."""

    folder: Path
    number: int
    order: UserOrder
    n_users: int
    n_rows: int
    times: bool

    def path(self, what: str) -> Path:
        """Of its users, or of one of its columns."""
        return self.folder / f"run-{self.number:06d}.{what}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of its rows."""
        return tuple(name for name in _COLUMNS if self.times or name != "times")

    def rows(self, first: int, stop: int) -> dict[str, NDArray[Any]]:
        """Rows ``first:stop`` of each column."""
        return {
            name: np.fromfile(self.path(name), dtype=kind, count=stop - first, offset=first * kind.itemsize)
            for name, kind in _COLUMNS.items()
            if name in self.columns
        }

    def users(self, batch: int) -> Iterator[tuple[Any, IntArray]]:
        """Ids and numbers of rows of its users from a batch on, a batch at a time."""
        import pyarrow as pa

        with pa.OSFile(str(self.path("users"))) as stream, pa.ipc.open_file(stream) as opened:
            for at in range(batch, opened.num_record_batches):
                found = opened.get_batch(at)
                yield found.column(_IDS), np.asarray(found.column(_COUNTS))

    def remove(self) -> None:
        """Delete its files."""
        for what in ("users", *self.columns):
            self.path(what).unlink(missing_ok=True)


def sorted_rows(ids: Any, items: IndexArray, values: Float32Array, times: IntArray | None) -> UserPart:
    """Rows in any order, by user; those of one user in the order in which they came.

    Args:
        ids: shape (n_rows,), a pyarrow array, kept in one order or dictionary-encoded with words that are.
        items: int32, shape (n_rows,).
        values: float32, shape (n_rows,).
        times: int64, shape (n_rows,), or None.
    """
    users, codes = sorted_distinct(ids)
    order = counting_order(codes, len(users))
    return UserPart(
        ids=users,
        counts=np.bincount(codes, minlength=len(users)).astype(np.int64),
        items=items[order],
        values=values[order],
        times=None if times is None else times[order],
    )


def write_run(folder: Path, number: int, order: UserOrder, part: UserPart) -> Run:
    """Write one run.

    Raises:
        OSError: the disk does not take it.
    """
    import pyarrow as pa

    run = Run(
        folder=folder,
        number=number,
        order=order,
        n_users=len(part.ids),
        n_rows=int(part.values.size),
        times=part.times is not None,
    )
    table = pa.table({_IDS: part.ids, _COUNTS: part.counts})
    with open_private(run.path("users")) as stream, pa.ipc.new_file(stream, table.schema) as file:
        for start, stop in cut(part.counts + 1, _ROWS_AT_ONCE):
            file.write_table(table[start:stop])
    for name, column in part.columns.items():
        with open_private(run.path(name)) as stream:
            stream.write(np.ascontiguousarray(column).data)
    return run


def in_order(run: Run, order: UserOrder) -> Run:
    """The same run with its ids kept in another order, written anew where that is another one.

    Args:
        run: on disk.
        order: not less than its own.
    """
    import pyarrow as pa

    if run.order is order:
        return run
    found = list(run.users(0))
    ids = kept_as(plain(pa.concat_arrays([part for part, _ in found]), run.order), order)
    counts = np.concatenate([part for _, part in found])
    columns = run.rows(0, run.n_rows)
    by_id, place = sorted_distinct(ids)
    codes = np.repeat(place, counts)
    rows = counting_order(codes, len(by_id))
    part = UserPart(
        ids=by_id,
        counts=counts[np.argsort(place)],
        items=columns["items"][rows],
        values=columns["values"][rows],
        times=columns["times"][rows] if run.times else None,
    )
    return write_run(run.folder, run.number, order, part)


@dataclass(slots=True, repr=False)
class RunCursor:
    """Where the merge stands in a run: what is read ahead of its users."""

    run: Run
    _batch: int = 0
    """The next batch of users to read."""
    _row: int = 0
    """The next row to read."""
    _ids: Any = None
    _counts: IntArray | None = None
    _ended: bool = False

    def fill(self, rows: int) -> None:
        """Read users ahead until these rows are known, or the run has no more."""
        import pyarrow as pa

        ids, counts = [self._ids] if self._ids is not None else [], [self._waiting]
        known = int(self._waiting.sum())
        if self._ended or known >= rows:
            return
        for found, theirs in self.run.users(self._batch):
            self._batch += 1
            ids.append(found)
            counts.append(theirs)
            known += int(theirs.sum())
            if known >= rows:
                break
        else:
            self._ended = True
        self._ids, self._counts = pa.concat_arrays(ids), np.concatenate(counts)

    @property
    def _waiting(self) -> IntArray:
        return np.zeros(0, dtype=np.int64) if self._counts is None else self._counts

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self._ended and self._waiting.size == 0

    @property
    def last(self) -> Any:
        """The last user that is read ahead, a pyarrow scalar; None where all that are left are."""
        return None if self._ended else self._ids[-1]

    def take(self, frontier: Any) -> UserPart:
        """The users up to one, whole, and their rows.

        Args:
            frontier: her id, a pyarrow scalar; None for all that are read ahead.
        """
        import pyarrow.compute as pc

        n_users = (
            len(self._ids) if frontier is None else pc.sum(pc.less_equal(self._ids, frontier)).as_py() or 0
        )
        counts = self._waiting[:n_users]
        stop = self._row + int(counts.sum())
        columns = self.run.rows(self._row, stop)
        part = UserPart(
            ids=self._ids[:n_users],
            counts=counts,
            items=columns["items"],
            values=columns["values"],
            times=columns.get("times"),
        )
        self._ids, self._counts, self._row = self._ids[n_users:], self._waiting[n_users:], stop
        return part


def renumbered(part: UserPart, numbers: IndexArray) -> UserPart:
    """The same with other numbers of items: ``numbers[old]``."""
    return replace(part, items=numbers[part.items])
