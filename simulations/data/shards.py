"""A sharded data set, read a block of users at a time: a handle that each process opens for itself."""

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
from fedboard.simulations.data.ratings import check_values
from fedboard.simulations.data.shard_files import (
    COUNT,
    ITEMS,
    KEY,
    TIMES,
    VALUES,
    Manifest,
    read_catalogue,
    read_manifest,
    readable,
    require_digest,
    schema_of,
)
from fedboard.simulations.data.sorting import SortedUsers, ends_of

_KEPT = 2
"""Row groups that stay decoded: where two blocks meet in one, it is read once."""
_COUNTS, _RATINGS, _TIMES = (COUNT,), (COUNT, KEY, ITEMS, VALUES), (COUNT, TIMES)


@lru_cache(maxsize=4)
def _opened(folder: Path, identity: str, stamp: object, process: int) -> "_Opened":
    """What this process has of a data set; opened anew where the manifest was written anew.

    Raises:
        InputError: the manifest cannot be read, or is another one than that of this identity.
    """
    manifest, found = read_manifest(folder)
    if found != identity:
        raise InputError(
            f"{folder} holds other shards than when it was opened: they were written anew; begin again with them."
        )
    return _Opened(folder=folder, manifest=manifest)


@dataclass(repr=False)
class _Opened:
    """A sharded data set, open for reading in one process."""

    folder: Path
    manifest: Manifest
    _first_user: IntArray = field(init=False)
    """Shape (n_shards + 1,): number of each shard's first user."""
    _shard: tuple[int, Any, IntArray] | None = field(init=False, default=None)
    """The one that is open: its number, ``pyarrow.parquet.ParquetFile``, and where its row groups end, in users."""
    _checked: dict[int, object] = field(init=False, default_factory=dict)
    """Shard to what its file looked like when its digest was right."""
    _decoded: OrderedDict[tuple[Any, ...], SortedUsers] = field(init=False, default_factory=OrderedDict)
    _lock: Lock = field(init=False, default_factory=Lock)

    def __post_init__(self) -> None:
        """Number the users of all shards."""
        self._first_user = ends_of(np.array([shard.users for shard in self.manifest.shards]))

    @cached_property
    def catalogue(self) -> tuple[NDArray[np.str_], tuple[str, ...] | None]:
        """Ids and titles of the items, see ``read_catalogue``."""
        return read_catalogue(self.folder, self.manifest.items)

    def rows(self, start: int, stop: int, columns: tuple[str, ...]) -> Iterator[SortedUsers]:
        """Users ``start:stop``, those of a row group at a time.

        Raises:
            InputError: what is there is not as the manifest says.
        """
        at = start
        while at < stop:
            shard = int(np.searchsorted(self._first_user, at, side="right")) - 1
            lowest = int(self._first_user[shard])
            with self._lock, readable(self.folder / self.manifest.shards[shard].file):
                ends = self._open(shard)[1]
                group = int(np.searchsorted(ends, at - lowest, side="right")) - 1
                users = self._group(shard, group, columns)
            first, behind = (lowest + int(end) for end in ends[group : group + 2])
            yield users.some(at - first, min(stop, behind) - first)
            at = min(stop, behind)

    def _group(self, shard: int, group: int, columns: tuple[str, ...]) -> SortedUsers:
        """One row group, decoded."""
        if (shard, group, columns) not in self._decoded:
            while len(self._decoded) >= _KEPT:
                self._decoded.popitem(last=False)
            self._decoded[shard, group, columns] = self._decode(shard, group, columns)
        self._decoded.move_to_end((shard, group, columns))
        return self._decoded[shard, group, columns]

    def _decode(self, shard: int, group: int, columns: tuple[str, ...]) -> SortedUsers:
        where = f"{self.folder / self.manifest.shards[shard].file}, row group {group}"
        table = self._open(shard)[0].read_row_group(group, columns=list(columns), use_threads=False)
        counts = np.asarray(table.column(COUNT)).astype(np.int64)

        def entries(name: str, kind: type[Any]) -> NDArray[Any]:
            if name not in columns:
                return np.zeros(0, dtype=kind)
            lists = table.column(name).combine_chunks()
            if not np.array_equal(np.asarray(lists.value_lengths()), counts):
                raise InputError(
                    f"{where}: a user has more {name} or fewer than it says; write the shards again."
                )
            return np.array(lists.flatten(), dtype=kind)

        rows = SortedUsers(
            keys=np.array(table.column(KEY)) if KEY in columns else np.zeros(0, np.uint64),
            ends=ends_of(counts),
            items=entries(ITEMS, np.int32),
            values=entries(VALUES, np.float32),
            times=entries(TIMES, np.int64) if TIMES in columns else None,
        )
        if ITEMS in columns:
            self._require_entries(rows, where)
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

    def _open(self, number: int) -> tuple[Any, IntArray]:
        """A shard, and where its row groups end; its digest was seen to once in this process.

        Raises:
            InputError: it is not as the manifest says.
        """
        if self._shard is not None and self._shard[0] == number:
            return self._shard[1:]
        from pyarrow import parquet as arrow_parquet

        self.require_same(number)
        told, path = self.manifest.shards[number], self.folder / self.manifest.shards[number].file
        file = arrow_parquet.ParquetFile(path, pre_buffer=False)
        if file.metadata.num_rows != told.users or not file.schema_arrow.equals(
            schema_of(times=self.manifest.times)
        ):
            raise InputError(
                f"{path}: it must hold {told.users} users, with the columns of a shard, as the manifest says; "
                "write the shards again."
            )
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self._shard = number, file, ends_of(np.array(sizes))
        return self._shard[1:]

    def require_same(self, number: int) -> None:
        """See that a shard is the one that the manifest tells of.

        Raises:
            InputError: it is another one.
            OSError: it cannot be read.
        """
        path = self.folder / self.manifest.shards[number].file
        stamp = stamp_of(path)
        if stamp is None or self._checked.get(number) != stamp:
            require_digest(path, self.manifest.shards[number].sha256)
            self._checked[number] = stamp


def open_shards(path: str | Path) -> "ShardedRatings":
    """Open the data set in a folder that ``fedboard data shard`` has made.

    Raises:
        InputError: there is no manifest, or it is damaged or contradicts itself.
    """
    folder = Path(path).absolute()
    told, identity = read_manifest(folder)
    return ShardedRatings(
        folder=folder,
        identity=identity,
        name=told.name,
        n_users=told.users,
        n_items=told.items.count,
        n_ratings=told.ratings,
        rating_range=told.rating_range,
        presence=told.presence,
        items_listed=told.items_listed,
        has_times=told.times,
    )


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class ShardedRatings:
    """Ratings in a folder of shards, see ``fedboard.simulations.data.stream.UserStream``.

    It holds a path and a few numbers, so it pickles to next to nothing; what it reads is opened once in each
    process, and the last row groups are kept there.

    Guarantee: whatever blocks are read, a user has the same entries, in memory of the block and two row groups. The
    digest of a shard is checked when a process first reads of it.
    Not guaranteed: anything about whoever can write to the folder.
    """

    folder: Path
    identity: str
    """SHA-256 of the manifest, which holds those of all files."""
    name: str
    n_users: int
    n_items: int
    n_ratings: int
    """Private."""
    rating_range: tuple[float, float]
    presence: bool
    items_listed: bool
    has_times: bool
    """Whether it says when ratings were given. Public."""

    @property
    def _opened(self) -> _Opened:
        return _opened(self.folder, self.identity, stamp_of(self.folder), os.getpid())

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
        opened, paths = self._opened, []
        for number, shard in enumerate(opened.manifest.shards):
            paths.append(self.folder / shard.file)
            with readable(paths[-1]):
                opened.require_same(number)
        return paths

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of users ``start:stop``, int64, shape (stop - start,). Private.

        Raises:
            InputError: as of ``read``.
        """
        return self._read(start, stop, _COUNTS).counts

    def read(self, start: int, stop: int) -> Cohort:
        """All ratings of users ``start:stop``: items ascending, ``user_keys`` set, ``first_row = start``. Private.

        Args:
            start: first user.
            stop: one past the last.

        Raises:
            InputError: there are no such users, or what is there is not as the manifest says: damaged, changed,
                or exchanged.
        """
        found = self._read(start, stop, _RATINGS)
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
        if not self.has_times:
            raise InputError(
                f"{self.folder}: these shards do not say when anything was rated, so they cannot be split by time; "
                "make them again with the column that says when (--columns time=NAME), without --no-times."
            )
        found = self._read(start, stop, _TIMES).times
        return np.zeros(0, np.int64) if found is None else found

    def _read(self, start: int, stop: int, columns: tuple[str, ...]) -> SortedUsers:
        if not 0 <= start <= stop <= self.n_users:
            raise InputError(
                f"{self.folder}: users {start}:{stop} were asked for, and there are 0:{self.n_users}."
            )
        return SortedUsers.joined(list(self._opened.rows(start, stop, columns)))
