"""The files of a sharded data set: its manifest ``shards.json``, its catalogue, and the shards, one row a user.

A shard is a Parquet file in which a user is one row: whole, with whatever they have rated in lists. Row groups hold
some half a million ratings, which is what a reader decodes at a time. Private, but for the catalogue.

``fedboard data shard`` alone writes shards.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import open_private, write_private
from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.named import MANIFEST
from fedboard.simulations.data.ratings import check_range
from fedboard.simulations.data.sorting import SortedUsers, cut

KEY, COUNT, ITEMS, VALUES, TIMES = "key", "count", "items", "values", "times"
FORMAT: Final = "fedboard-shards-1"
CATALOGUE: Final = "items.parquet"
NOTE: Final = (
    "raw ratings of people, by numbers that follow from their ids: as private as what they were read from"
)
MOST: Final = 2**31 - 1
"""Users and items are counted in 32 bits."""
GROUP_RATINGS = 1 << 19
"""Ratings in a row group."""
_LARGEST = 1 << 28
"""Bytes of a manifest."""
_ITEM, _TITLE = "item", "title"


def schema_of(*, times: bool) -> Any:
    """Return the schema of a shard, of pyarrow; no cell is ever empty.

    ``key``: uint64, see ``id_keys``. ``count``: int32, how many ratings the user has. ``items``: int32, the numbers
    of the items in the catalogue, ascending. ``values``: float32. ``times``: int64, if they are kept.
    """
    import pyarrow as pa

    kinds = {ITEMS: pa.int32(), VALUES: pa.float32()} | ({TIMES: pa.int64()} if times else {})
    lists = [
        pa.field(name, pa.list_(pa.field("element", kind, nullable=False)), nullable=False)
        for name, kind in kinds.items()
    ]
    plain = [pa.field(KEY, pa.uint64(), nullable=False), pa.field(COUNT, pa.int32(), nullable=False)]
    return pa.schema([*plain, *lists])


class Shard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Parquet file: some users, whole."""

    file: str
    bytes: int
    sha256: str
    """Of the file, hexadecimal."""
    users: int
    ratings: int


class Items(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The catalogue: a Parquet file with the columns ``item`` and, if there are titles, ``title``."""

    file: str
    sha256: str
    count: int
    titles: bool


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is known of a sharded data set without opening a shard."""

    format: str
    note: str
    name: str
    rating_range: tuple[float, float]
    presence: bool
    items_listed: bool
    times: bool
    """Whether the shards say when ratings were given."""
    users: int
    ratings: int
    items: Items
    shards: tuple[Shard, ...]
    """In the order of their users."""


def read_manifest(folder: Path) -> tuple[Manifest, str]:
    """Return the manifest of a folder and the SHA-256 of its bytes, hexadecimal, which stands for all of the data.

    Raises:
        InputError: there is none, it is damaged, of another format, or contradicts itself.
    """
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path} is larger than a manifest can be; write the shards again.")
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}; name a folder that `fedboard data shard` has made."
        ) from error
    try:
        found = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is no manifest of shards ({' '.join(str(error).split())}); write the shards again."
        ) from error
    if found.format != FORMAT:
        raise InputError(
            f"{path} is of format {found.format!r}, and this version of fedboard reads {FORMAT!r}; write the "
            "shards again with it."
        )
    check_range(found.rating_range, str(path))
    wrong = next(_contradictions(found), None)
    if wrong is not None:
        raise InputError(f"{path}: {wrong}; it was changed or cut, write the shards again.")
    return found, hashlib.sha256(content).hexdigest()


def _contradictions(found: Manifest) -> Iterator[str]:
    """What cannot be of what it says."""
    if found.items.file != CATALOGUE:
        yield f"the file of items must be called {CATALOGUE}"
    if any(shard.file != _file_name(number) for number, shard in enumerate(found.shards)):
        yield "shards must be called ratings-00000.parquet and so on, in this order"
    if not (0 < found.users <= MOST and 0 < found.items.count <= MOST):
        yield f"users and items must be 1 to {MOST}"
    for shard in found.shards:
        if shard.users < 1 or shard.ratings < 0:
            yield f"{shard.file} cannot have these numbers of users and ratings"
    for what in ("users", "ratings"):
        if getattr(found, what) != sum(getattr(shard, what) for shard in found.shards):
            yield f"the {what} of all shards are not as many as it says"


def require_digest(path: Path, sha256: str) -> None:
    """See that a file is the one that the manifest tells of.

    Raises:
        InputError: it is another one.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() == sha256:
            return
    raise InputError(
        f"{path} is not the file that the manifest tells of (its digest differs): it was cut, changed, or "
        "exchanged; bring back the right one or write the shards again."
    )


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Tell what the disk or pyarrow finds wrong with a Parquet file in a sentence.

    Raises:
        InputError: it cannot be read, is none, is damaged, or a text in it is not UTF-8.
    """
    import pyarrow as pa

    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise InputError(
            f"{path} cannot be read ({reason}); bring it back or write the shards again."
        ) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not a readable Parquet file ({reason}); write it again.") from error


def read_catalogue(folder: Path, told: Items) -> tuple[NDArray[np.str_], tuple[str, ...] | None]:
    """Return ids, shape (n_items,), and titles of the items.

    Args:
        folder: of the shards.
        told: what the manifest says of them.

    Raises:
        InputError: the file is missing, damaged, or not the one that the manifest tells of.
    """
    from pyarrow import parquet as arrow_parquet

    path, names = folder / told.file, [_ITEM, *([_TITLE] if told.titles else [])]
    with StoredFile(path=path).open() as stream, readable(path):
        require_digest(path, told.sha256)
        opened = arrow_parquet.ParquetFile(stream)
        if any(name not in opened.schema_arrow.names for name in names):
            raise InputError(f"{path} must have the columns {', '.join(names)}; write the shards again.")
        columns = [column.to_pylist() for column in opened.read(columns=names).columns]
    texts = all(isinstance(cell, str) for column in columns for cell in column)
    if len(columns[0]) != told.count or not texts or len(set(columns[0])) < told.count:
        raise InputError(f"{path} must name {told.count} items, each once, in texts; write the shards again.")
    return np.array(columns[0], dtype=np.str_), tuple(columns[1]) if told.titles else None


@dataclass(slots=True, repr=False)
class ShardWriter:
    """Writes users in the order in which they come into files of a private folder."""

    folder: Path
    times: bool
    shard_ratings: int
    """Most ratings of a shard, but for one of a single user who has more; a user without any counts as one."""
    _shards: list[Shard] = field(init=False, default_factory=list)
    _waiting: list[SortedUsers] = field(init=False, default_factory=list)
    _stream: BinaryIO | None = field(init=False, default=None)
    _file: Any = field(init=False, default=None)
    _users: int = field(init=False, default=0)
    """Of the shard that is open; likewise the next two."""
    _ratings: int = field(init=False, default=0)
    _rows: int = field(init=False, default=0)

    def add(self, users: SortedUsers) -> None:
        """Take the next users; what fills row groups is written."""
        self._waiting.append(users)
        if sum(_room(part) for part in self._waiting) >= 2 * GROUP_RATINGS:
            self._write_waiting(last=False)

    def finish(self, ids: NDArray[np.str_], titles: tuple[str, ...] | None, **told: Any) -> Manifest:
        """Write what is left, close, and write catalogue and manifest, which makes the folder a data set.

        Args:
            ids: of the items.
            titles: one for each, or none at all.
            told: what the manifest says of the data set besides its files.
        """
        self._write_waiting(last=True)
        self._close()
        manifest = Manifest(
            format=FORMAT,
            note=NOTE,
            times=self.times,
            users=sum(shard.users for shard in self._shards),
            ratings=sum(shard.ratings for shard in self._shards),
            items=self._write_catalogue(ids, titles),
            shards=tuple(self._shards),
            **told,
        )
        encoded = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        write_private(self.folder / MANIFEST, encoded)
        return manifest

    def _write_catalogue(self, ids: NDArray[np.str_], titles: tuple[str, ...] | None) -> Items:
        import pyarrow as pa
        from pyarrow import parquet as arrow_parquet

        columns = {_ITEM: pa.array(ids.tolist(), pa.string())}
        if titles is not None:
            columns[_TITLE] = pa.array(titles, pa.string())
        with open_private(self.folder / CATALOGUE) as stream:
            arrow_parquet.write_table(pa.table(columns), stream, compression="ZSTD")
        digest = _digest_of(self.folder / CATALOGUE)
        return Items(file=CATALOGUE, sha256=digest, count=int(ids.size), titles=titles is not None)

    def abandon(self) -> None:
        """Close without finishing: what was written is of no use."""
        if self._stream is not None:
            # The disk may be why nobody goes on; left open, pyarrow would complain of it later.
            with suppress(Exception):
                self._file.close()
            self._stream.close()

    def _write_waiting(self, *, last: bool) -> None:
        if not self._waiting:
            return
        users = SortedUsers.joined(self._waiting)
        bounds = list(cut(np.maximum(users.counts, 1), min(GROUP_RATINGS, self.shard_ratings)))
        rest = None if last else bounds.pop()
        for start, stop in bounds:
            self._write_group(users.some(start, stop))
        self._waiting = [] if rest is None else [users.some(*rest)]

    def _write_group(self, users: SortedUsers) -> None:
        if self._rows + _room(users) > self.shard_ratings:
            self._close()
        if self._file is None:
            self._open()
        self._file.write_table(_table(users, times=self.times), row_group_size=max(users.counts.size, 1))
        self._users += users.counts.size
        self._ratings += users.items.size
        self._rows += _room(users)

    def _open(self) -> None:
        from pyarrow import parquet as arrow_parquet

        self._stream = open_private(self._path)
        # Items and values are few in a row group; packing only pays for times, which are read only where they are
        # asked for: some three bytes a rating, and 10 ns to read it.
        times = [f"{TIMES}.list.element"] if self.times else []
        plain = [KEY, COUNT, f"{ITEMS}.list.element", f"{VALUES}.list.element"]
        self._file = arrow_parquet.ParquetWriter(
            self._stream,
            schema_of(times=self.times),
            use_dictionary=plain[2:],
            compression=dict.fromkeys(plain, "NONE") | dict.fromkeys(times, "ZSTD"),
            dictionary_pagesize_limit=1 << 23,
        )

    def _close(self) -> None:
        if self._file is None or self._stream is None:
            return
        self._file.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        path = self._path
        self._shards.append(
            Shard(
                file=path.name,
                bytes=path.stat().st_size,
                sha256=_digest_of(path),
                users=self._users,
                ratings=self._ratings,
            )
        )
        self._file, self._stream = None, None
        self._users = self._ratings = self._rows = 0

    @property
    def _path(self) -> Path:
        return self.folder / _file_name(len(self._shards))


def _file_name(number: int) -> str:
    return f"ratings-{number:05d}.parquet"


def _digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _room(users: SortedUsers) -> int:
    return int(np.maximum(users.counts, 1).sum())


def _table(users: SortedUsers, *, times: bool) -> Any:
    """One row for each user, as a ``pyarrow.Table``."""
    import pyarrow as pa

    ends, schema = pa.array(users.ends.astype(np.int32)), schema_of(times=times)
    lists = {ITEMS: users.items, VALUES: users.values, TIMES: users.times}
    columns = [pa.array(users.keys), pa.array(users.counts.astype(np.int32))]
    columns += [
        pa.ListArray.from_arrays(ends, pa.array(lists[entry.name]), type=entry.type)
        for entry in list(schema)[2:]
    ]
    return pa.Table.from_arrays(columns, schema=schema)
