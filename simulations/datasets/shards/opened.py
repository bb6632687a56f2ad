"""What a process holds of a sharded data set: its manifest, the shard it reads of, and the last row groups."""

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
from fedboard.common.errors import InputError
from fedboard.common.files import stamp_of
from fedboard.simulations.datasets.shards.catalogue import read_catalogue
from fedboard.simulations.datasets.shards.checking import (
    Place,
    check_empty,
    check_entries,
    check_schema,
    check_users,
    digest_of,
)
from fedboard.simulations.datasets.shards.manifest import (
    ITEM,
    KEY,
    TIME,
    UNTIMED,
    USER,
    VALUE,
    Manifest,
    Shard,
    read_manifest,
)
from fedboard.simulations.datasets.shards.user_rows import UserRows

_KEPT = 2
"""Row groups that stay decoded: where two blocks meet in one, it is read once."""
_KINDS = {"counts": (USER, ITEM), "ratings": UNTIMED, "times": (USER, ITEM, TIME)}


@dataclass(slots=True, repr=False)
class _OpenShard:
    number: int
    file: Any
    """``pyarrow.parquet.ParquetFile``."""


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
    _shard: _OpenShard | None = field(init=False, default=None)
    _checked: dict[int, object] = field(init=False, default_factory=dict)
    """Shard to what its file looked like when its digest was right."""
    _decoded: OrderedDict[tuple[int, str], UserRows] = field(init=False, default_factory=OrderedDict)
    _lock: Lock = field(init=False, default_factory=Lock)

    def __post_init__(self) -> None:
        """Number the row groups of all shards."""
        shards = self.manifest.shards
        self._place = [(at, number) for at, shard in enumerate(shards) for number in range(len(shard.groups))]
        users = [group.users for shard in shards for group in shard.groups]
        self._first_user = np.concatenate([np.zeros(1, np.int64), np.cumsum(users, dtype=np.int64)])

    @cached_property
    def catalogue(self) -> tuple[NDArray[np.str_], tuple[str, ...] | None]:
        """Ids and titles of the items, see ``read_catalogue``."""
        return read_catalogue(self.folder, self.manifest.items)

    def rows(self, start: int, stop: int, kind: str) -> Iterator[UserRows]:
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

    def _group(self, number: int, kind: str) -> UserRows:
        """One row group, decoded and checked."""
        with self._lock:
            if (number, kind) not in self._decoded:
                while len(self._decoded) >= _KEPT:
                    self._decoded.popitem(last=False)
                self._decoded[number, kind] = self._decode(number, kind)
            self._decoded.move_to_end((number, kind))
            return self._decoded[number, kind]

    def _decode(self, number: int, kind: str) -> UserRows:
        at, within = self._place[number]
        group = self.manifest.shards[at].groups[within]
        place = Place(self.folder / self.manifest.shards[at].file, within)
        columns = _KINDS[kind] if group.without_ratings or kind != "counts" else (USER,)
        with place.readable():
            table = self._file(at).read_row_group(within, columns=list(columns), use_threads=False)
        starts = check_users(place, table, int(self._first_user[number]), group)
        filled = check_empty(place, table, starts, group)
        counts = np.diff(np.append(starts, table.num_rows))
        if filled is not None:
            counts = np.add.reduceat(filled, starts, dtype=np.int64)
        rows = UserRows(
            indptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
            items=_of(table, ITEM, filled, np.dtype(np.int32), wanted=kind == "ratings"),
            values=_of(table, VALUE, filled, np.dtype(np.float32), wanted=kind == "ratings"),
            keys=_of(table, KEY, None, np.dtype(np.uint64), wanted=kind == "ratings"),
            times=_of(table, TIME, filled, np.dtype(np.int64), wanted=kind == "times"),
        )
        if kind != "ratings":
            return rows
        return check_entries(place, rows, starts, self.manifest)

    def _file(self, at: int) -> Any:
        """The shard, opened, and its digest seen to once in this process."""
        if self._shard is not None and self._shard.number == at:
            return self._shard.file
        from pyarrow import parquet as arrow_parquet

        shard = self.manifest.shards[at]
        path = self.folder / shard.file
        self._require_same(path, shard, at)
        file = arrow_parquet.ParquetFile(path, pre_buffer=False)
        check_schema(path, file, shard, times=self.manifest.times)
        self._shard = _OpenShard(at, file)
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
