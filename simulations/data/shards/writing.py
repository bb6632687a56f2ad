"""Writing shards: users in order go in, files with whole users in whole row groups come out."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import open_private, write_private
from fedboard.simulations.data.named import MANIFEST
from fedboard.simulations.data.shards.manifest import (
    FORMAT,
    ITEM,
    KEY,
    NOTE,
    TIME,
    USER,
    VALUE,
    Group,
    Items,
    Manifest,
    Shard,
    digest_of,
    schema_of,
    written_as,
)
from fedboard.simulations.data.sorting import SortedUsers, cut

GROUP_RATINGS = 1 << 19
"""Ratings in a row group: what is decoded at a time, some 12 MB of them."""


@dataclass(slots=True, repr=False)
class ShardWriter:
    """Writes users in the order in which they come, numbered from 0, into files of a private folder."""

    folder: Path
    times: bool
    shard_ratings: int
    """Most rows of a shard, but for one of a single user who has more."""
    group_ratings: int = GROUP_RATINGS
    """Most rows of a row group; a user who has more is one of her own."""
    shards: list[Shard] = field(init=False, default_factory=list)
    n_users: int = field(init=False, default=0)
    n_ratings: int = field(init=False, default=0)
    _waiting: list[SortedUsers] = field(init=False, default_factory=list)
    _stream: BinaryIO | None = field(init=False, default=None)
    _file: Any = field(init=False, default=None)
    _groups: list[Group] = field(init=False, default_factory=list)

    def add(self, users: SortedUsers) -> None:
        """Take the next users; what fills row groups is written."""
        self._waiting.append(users)
        if sum(_n_rows(part) for part in self._waiting) >= 2 * self.group_ratings:
            self._write_waiting(last=False)

    def finish(self, items: Items, **told: Any) -> Manifest:
        """Write what is left, close, and write the manifest, which makes the folder a data set.

        Args:
            items: what was written of them.
            told: what the manifest says of the data set besides its files.
        """
        self._write_waiting(last=True)
        self._close_shard()
        manifest = Manifest(
            format=FORMAT,
            note=NOTE,
            times=self.times,
            users=self.n_users,
            ratings=self.n_ratings,
            items=items,
            shards=tuple(self.shards),
            **told,
        )
        encoded = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        write_private(self.folder / MANIFEST, encoded)
        return manifest

    def abandon(self) -> None:
        """Close without finishing: what was written is of no use."""
        if self._stream is not None:
            # The disk may be why nobody goes on; left open, pyarrow would complain of it later.
            with suppress(Exception):
                self._file.close()
            self._stream.close()
            self._file = self._stream = None

    def _write_waiting(self, *, last: bool) -> None:
        if not self._waiting:
            return
        users = SortedUsers.joined(self._waiting)
        bounds = list(cut(np.maximum(users.counts, 1), self.group_ratings))
        rest = None if last else bounds.pop()
        for start, stop in bounds:
            self._write_group(users.some(start, stop))
        self._waiting = [] if rest is None else [users.some(*rest)]

    def _write_group(self, users: SortedUsers) -> None:
        if sum(one.rows for one in self._groups) + _n_rows(users) > self.shard_ratings:
            self._close_shard()
        if self._file is None:
            self._open_shard()
        without = int(np.count_nonzero(users.counts == 0))
        self._file.write_table(_table(users, self.n_users), row_group_size=_n_rows(users))
        group = Group(users=int(users.counts.size), ratings=int(users.items.size), without_ratings=without)
        self._groups.append(group)
        self.n_users += group.users
        self.n_ratings += group.ratings

    def _open_shard(self) -> None:
        from pyarrow import parquet as arrow_parquet

        self._stream = open_private(self._path())
        self._file = arrow_parquet.ParquetWriter(
            self._stream, schema_of(times=self.times), **written_as(times=self.times)
        )

    def _close_shard(self) -> None:
        if self._file is None or self._stream is None:
            return
        self._file.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        path = self._path()
        self.shards.append(
            Shard(
                file=path.name,
                bytes=path.stat().st_size,
                sha256=digest_of(path),
                groups=tuple(self._groups),
            )
        )
        self._file, self._stream, self._groups = None, None, []

    def _path(self) -> Path:
        return self.folder / f"ratings-{len(self.shards):05d}.parquet"


def _n_rows(users: SortedUsers) -> int:
    return int(np.maximum(users.counts, 1).sum())


def _table(users: SortedUsers, first_user: int) -> Any:
    """One row for each rating, and one for a user who has none, as a ``pyarrow.Table``."""
    import pyarrow as pa

    rows = np.maximum(users.counts, 1)
    numbers = np.arange(first_user, first_user + rows.size, dtype=np.int64)
    empty = np.repeat(users.counts == 0, rows)
    columns: dict[str, NDArray[Any]] = {USER: np.repeat(numbers, rows), KEY: np.repeat(users.keys, rows)}
    entries: dict[str, NDArray[Any]] = {ITEM: users.items, VALUE: users.values}
    if users.times is not None:
        entries[TIME] = users.times
    for name, column in entries.items():
        columns[name] = _spread(column, empty) if empty.any() else column
    schema = schema_of(times=users.times is not None)
    return pa.table(
        {name: pa.array(column, schema.field(name).type) for name, column in columns.items()}, schema
    )


def _spread(column: Any, empty: Any) -> Any:
    """A column with an empty cell in each of those rows."""
    cells = np.zeros(empty.size, dtype=column.dtype)
    cells[~empty] = column
    return np.ma.masked_array(cells, mask=empty)
