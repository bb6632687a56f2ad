"""A sharded data set as a stream of users: a handle that each process opens for itself."""

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.files import stamp_of
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.rules import check_values
from fedboard.simulations.data.shards.manifest import (
    ITEM,
    KEY,
    TIME,
    UNTIMED,
    USER,
    VALUE,
    Manifest,
    Shard,
    digest_of,
    read_catalogue,
    read_manifest,
    readable,
)
from fedboard.simulations.data.sorting import SortedUsers, ends_of

_KEPT = 2
"""Row groups that stay decoded: where two blocks meet in one, it is read once."""
_KINDS = {"counts": (USER, ITEM), "ratings": UNTIMED, "times": (USER, ITEM, TIME)}


def opened(folder: Path, identity: str) -> "Opened":
    """What this process has of a data set; opened anew where the manifest was written anew.

    Raises:
        InputError: the manifest cannot be read, or is another one than that of this identity.
    """
    return _opened(folder, identity, stamp_of(folder), os.getpid())


@lru_cache(maxsize=4)
def _opened(folder: Path, identity: str, stamp: object, process: int) -> "Opened":
    manifest, found = read_manifest(folder)
    if found != identity:
        raise InputError(
            f"{folder} holds other shards than when it was opened: they were written anew; begin again with them."
        )
    return Opened(folder=folder, manifest=manifest)


@dataclass(repr=False)
class Opened:
    """A sharded data set, open for reading in one process."""

    folder: Path
    manifest: Manifest
    _first_user: IntArray = field(init=False)
    """Shape (n_groups + 1,): number of each row group's first user."""
    _place: list[tuple[int, int]] = field(init=False)
    """Of each row group: its shard, and its number there."""
    _shard: tuple[int, Any] | None = field(init=False, default=None)
    """The one that is open: its number, and ``pyarrow.parquet.ParquetFile``."""
    _checked: dict[int, object] = field(init=False, default_factory=dict)
    """Shard to what its file looked like when its digest was right."""
    _decoded: OrderedDict[tuple[int, str], SortedUsers] = field(init=False, default_factory=OrderedDict)
    _lock: Lock = field(init=False, default_factory=Lock)

    def __post_init__(self) -> None:
        """Number the row groups of all shards."""
        shards = self.manifest.shards
        self._place = [(at, number) for at, shard in enumerate(shards) for number in range(len(shard.groups))]
        users = [group.users for shard in shards for group in shard.groups]
        self._first_user = ends_of(np.array(users))

    @cached_property
    def catalogue(self) -> tuple[NDArray[np.str_], tuple[str, ...] | None]:
        """Ids and titles of the items, see ``read_catalogue``."""
        return read_catalogue(self.folder, self.manifest.items)

    def rows(self, start: int, stop: int, kind: str) -> Iterator[SortedUsers]:
        """Users ``start:stop``, a row group at a time; ``kind`` is ``counts``, ``ratings`` or ``times``.

        Raises:
            InputError: what is there is not as the manifest says.
        """
        first = int(np.searchsorted(self._first_user, start, side="right")) - 1
        at = start
        for number in range(first, len(self._place)):
            if at >= stop:
                return
            lowest, highest = int(self._first_user[number]), int(self._first_user[number + 1])
            yield self._group(number, kind).some(at - lowest, min(stop, highest) - lowest)
            at = highest

    def _group(self, number: int, kind: str) -> SortedUsers:
        """One row group, decoded."""
        with self._lock:
            if (number, kind) not in self._decoded:
                while len(self._decoded) >= _KEPT:
                    self._decoded.popitem(last=False)
                self._decoded[number, kind] = self._decode(number, kind)
            self._decoded.move_to_end((number, kind))
            return self._decoded[number, kind]

    def _decode(self, number: int, kind: str) -> SortedUsers:
        at, within = self._place[number]
        group, path = self.manifest.shards[at].groups[within], self.folder / self.manifest.shards[at].file
        columns = _KINDS[kind] if group.without_ratings or kind != "counts" else (USER,)
        with readable(StoredFile(path=path)):
            table = self._file(at).read_row_group(within, columns=list(columns), use_threads=False)
        users = table.column(USER).to_numpy()
        starts = np.append(0, np.flatnonzero(users[1:] != users[:-1]) + 1)
        if users.size == 0 or users[0] != self._first_user[number] or starts.size != group.users:
            raise InputError(
                f"{path}, row group {within}: it must hold {group.users} users from number "
                f"{self._first_user[number]} on, as the manifest says; write the shards again."
            )
        filled = None
        if group.without_ratings:
            filled = table.column(ITEM).is_valid().to_numpy(zero_copy_only=False)
        counts = np.diff(np.append(starts, table.num_rows))
        if filled is not None:
            counts = np.add.reduceat(filled, starts, dtype=np.int64)
        rows = SortedUsers(
            ends=ends_of(counts),
            items=_of(table, ITEM, filled, np.dtype(np.int32), wanted=kind == "ratings"),
            values=_of(table, VALUE, filled, np.dtype(np.float32), wanted=kind == "ratings"),
            keys=_of(table, KEY, None, np.dtype(np.uint64), wanted=kind == "ratings")[
                starts if kind == "ratings" else slice(0)
            ],
            times=_of(table, TIME, filled, np.dtype(np.int64), wanted=True) if kind == "times" else None,
        )
        if kind == "ratings":
            self._require_entries(rows, f"{path}, row group {within}")
        return rows

    def _require_entries(self, rows: SortedUsers, where: str) -> None:
        """See that a user has rated an item once, of the catalogue and on the scale: bounds rest on it."""
        ascending = rows.items[1:] > rows.items[:-1]
        begins = rows.ends[1:-1]
        ascending[begins[(begins > 0) & (begins < rows.items.size)] - 1] = True
        if not ascending.all():
            raise InputError(f"{where}: the items of a user must ascend, each once; write the shards again.")
        if rows.items.size and not (rows.items.min() >= 0 and rows.items.max() < self.manifest.items.count):
            last = self.manifest.items.count - 1
            raise InputError(
                f"{where}: an item number is none of the catalogue, 0 to {last}; write the shards again."
            )
        check_values(rows.values, self.manifest.rating_range, lambda row: f"{where}, rating {row + 1}")

    def files(self) -> list[Path]:
        """The shards; each is the one that the manifest tells of.

        Raises:
            InputError: one is not, or cannot be read.
        """
        for at, shard in enumerate(self.manifest.shards):
            with readable(StoredFile(path=self.folder / shard.file)):
                self._require_same(self.folder / shard.file, shard, at)
        return [self.folder / shard.file for shard in self.manifest.shards]

    def _file(self, at: int) -> Any:
        """The shard, opened, and its digest seen to once in this process."""
        if self._shard is not None and self._shard[0] == at:
            return self._shard[1]
        from pyarrow import parquet as arrow_parquet

        shard = self.manifest.shards[at]
        path = self.folder / shard.file
        self._require_same(path, shard, at)
        file = arrow_parquet.ParquetFile(path, pre_buffer=False)
        self._shard = at, file
        return file

    def _require_same(self, path: Path, shard: Shard, at: int) -> None:
        stamp = stamp_of(path)
        if stamp is not None and self._checked.get(at) == stamp:
            return
        if digest_of(path) != shard.sha256:
            raise InputError(
                f"{path} is not the file that the manifest tells of (its digest differs): it was cut, changed, or "
                "exchanged; bring back the right one or write the shards again."
            )
        self._checked[at] = stamp


def _of(table: Any, name: str, filled: Any, kind: "np.dtype[Any]", *, wanted: bool) -> NDArray[Any]:
    """A column as an array of its own; of the rows that are filled."""
    if not wanted:
        return np.zeros(0, dtype=kind)
    column = table.column(name)
    return np.array(column.drop_null() if filled is not None else column).astype(kind, copy=False)


def open_shards(path: str | Path) -> "ShardedRatings":
    """The data set in a folder that ``fedboard data shard`` has made.

    Args:
        path: of the folder.

    Raises:
        InputError: there is no manifest, or it is damaged or contradicts itself.
    """
    folder = Path(path).absolute()
    return ShardedRatings(folder=folder, identity=read_manifest(folder)[1])


@dataclass(frozen=True, slots=True, repr=False)
class ShardedRatings:
    """Ratings in a folder of shards, see ``fedboard.simulations.data.stream.UserStream``.

    It holds a path alone, so it pickles to nothing; what it reads is opened once in each process, and the last row
    groups are kept there.

    Guarantee: whatever blocks are read, a user has the same entries, in memory of the block and two row groups. The
    digest of a shard is checked when a process first reads of it.
    Not guaranteed: anything about whoever can write to the folder.
    """

    folder: Path
    identity: str
    """SHA-256 of the manifest, which holds those of all files."""

    @property
    def _opened(self) -> Opened:
        return opened(self.folder, self.identity)

    @property
    def name(self) -> str:
        """Short name for reports."""
        return self._opened.manifest.name

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return self._opened.manifest.users

    @property
    def n_ratings(self) -> int:
        """Number of ratings. Private."""
        return self._opened.manifest.ratings

    @property
    def rating_range(self) -> tuple[float, float]:
        """Lowest and highest rating, both inclusive. Public."""
        return self._opened.manifest.rating_range

    @property
    def presence(self) -> bool:
        """Whether an entry says only that somebody used an item. Public."""
        return self._opened.manifest.presence

    @property
    def items_listed(self) -> bool:
        """Whether the list of items stands apart from the ratings. Public."""
        return self._opened.manifest.items_listed

    @property
    def has_times(self) -> bool:
        """Whether it says when ratings were given. Public."""
        return self._opened.manifest.times

    @property
    def n_items(self) -> int:
        """Size of the catalogue. Public."""
        return self._opened.manifest.items.count

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """Shape (n_items,). Public."""
        return self._opened.catalogue[0]

    @property
    def titles(self) -> tuple[str, ...] | None:
        """One for each item, where there are any. Public."""
        return self._opened.catalogue[1]

    def files(self) -> list[Path]:
        """The shards, in the order of their users: Parquet files with the columns of ``schema_of``. Private.

        Raises:
            InputError: one is damaged, or another one than the manifest tells of.
        """
        return self._opened.files()

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of users ``start:stop``, int64, shape (stop - start,). Private.

        Raises:
            InputError: as of ``read``.
        """
        self._require_users(start, stop)
        return SortedUsers.joined(list(self._opened.rows(start, stop, "counts"))).counts

    def read(self, start: int, stop: int) -> Cohort:
        """All ratings of users ``start:stop``: items ascending, ``user_keys`` set, ``first_row = start``. Private.

        Args:
            start: first user.
            stop: one past the last.

        Raises:
            InputError: there are no such users, or what is there is not as the manifest says: damaged, changed,
                or exchanged.
        """
        self._require_users(start, stop)
        found = SortedUsers.joined(list(self._opened.rows(start, stop, "ratings")))
        return Cohort(
            indptr=found.ends,
            items=found.items,
            ratings=found.values,
            n_items=self.n_items,
            first_row=start,
            user_keys=found.keys,
        )

    def times(self, start: int, stop: int) -> IntArray:
        """When each rating of ``read(start, stop)`` was given, int64, in its order. Private.

        Raises:
            InputError: the shards do not say, or as of ``read``.
        """
        self._require_users(start, stop)
        if not self.has_times:
            raise InputError(
                f"{self.folder}: these shards do not say when anything was rated, so they cannot be split by time; "
                "make them again with the column that says when (--columns time=NAME), without --no-times."
            )
        found = SortedUsers.joined(list(self._opened.rows(start, stop, "times"))).times
        return np.zeros(0, np.int64) if found is None else found

    def _require_users(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.n_users:
            raise InputError(
                f"{self.folder}: users {start}:{stop} were asked for, and there are 0:{self.n_users}."
            )
