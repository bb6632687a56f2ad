"""The columns of a shard: one row for each rating, and how pyarrow writes them.

What a folder of shards says of itself: its manifest, ``shards.json``. Private, as the ratings are.

And its catalogue: the items, a Parquet file beside the shards, in the order of their numbers. Public.

``fedboard data shard`` alone writes shards.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import open_private
from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.named import MANIFEST
from fedboard.simulations.data.rules import check_range

USER, KEY, ITEM, VALUE, TIME = "user", "key", "item", "value", "time"
UNTIMED: Final = (USER, KEY, ITEM, VALUE)


def schema_of(*, times: bool) -> Any:
    """The schema of a shard, of pyarrow.

    ``user``: int64, the number of the user among all, from 0. ``key``: uint64, see ``id_keys``. ``item``: int32,
    the number of the item in the catalogue. ``value``: float32. ``time``: int64, if they are kept. Item, value and
    time are empty in the one row of a user who has no rating, and nowhere else.

    Args:
        times: whether they are kept.
    """
    import pyarrow as pa

    columns = [
        pa.field(USER, pa.int64(), nullable=False),
        pa.field(KEY, pa.uint64(), nullable=False),
        pa.field(ITEM, pa.int32()),
        pa.field(VALUE, pa.float32()),
    ]
    return pa.schema([*columns, *([pa.field(TIME, pa.int64())] if times else [])])


def written_as(*, times: bool) -> dict[str, Any]:
    """Arguments of ``pyarrow.parquet.ParquetWriter``: some three bytes a rating, and 10 ns to read it.

    User numbers ascend by 0 or 1 and are kept as differences, keys and values are few in a row group; packing only
    pays for times, which are read only where a split asks for them.

    Args:
        times: whether they are kept.
    """
    return {
        "use_dictionary": [KEY, ITEM, VALUE],
        "column_encoding": {USER: "DELTA_BINARY_PACKED", **({TIME: "PLAIN"} if times else {})},
        "compression": {USER: "NONE", KEY: "NONE", ITEM: "NONE", VALUE: "NONE", TIME: "ZSTD"},
        "dictionary_pagesize_limit": 1 << 23,
    }


FORMAT: Final = "fedboard-shards-1"
ITEMS: Final = "items.parquet"
NOTE: Final = (
    "raw ratings of people, by numbers that follow from their ids: as private as what they were read from"
)
_SHARD = re.compile(r"ratings-[0-9]{5,9}\.parquet")
MOST: Final = 2**31 - 1
"""Users and items are counted in 32 bits."""
_LARGEST = 1 << 28
"""Bytes of a manifest; one of 10^9 ratings has some hundred thousand."""


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row group of a shard: some users, whole."""

    users: int
    ratings: int
    without_ratings: int = 0
    """How many of these users have no rating: each of them has one row, in which item and value are empty."""

    @property
    def rows(self) -> int:
        """Rows of the row group."""
        return self.ratings + self.without_ratings


class Shard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Parquet file: some users, whole."""

    file: str
    bytes: int
    sha256: str
    """Of the file, hexadecimal."""
    groups: tuple[Group, ...]


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
    """The manifest of a folder and the SHA-256 of its bytes, hexadecimal, which stands for all of the data.

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
    _require_sense(path, found)
    return found, hashlib.sha256(content).hexdigest()


def _require_sense(path: Path, found: Manifest) -> None:
    if found.format != FORMAT:
        raise InputError(
            f"{path} is of format {found.format!r}, and this version of fedboard reads {FORMAT!r}; write the "
            "shards again with it."
        )
    check_range(found.rating_range, str(path))
    wrong = next(_contradictions(found), None)
    if wrong is not None:
        raise InputError(f"{path}: {wrong}; it was changed or cut, write the shards again.")


def _contradictions(found: Manifest) -> Iterator[str]:
    """What cannot be of what it says."""
    names = [shard.file for shard in found.shards]
    groups = [group for shard in found.shards for group in shard.groups]
    if found.items.file != ITEMS:
        yield f"the file of items must be called {ITEMS}"
    if any(_SHARD.fullmatch(name) is None for name in names) or len(set(names)) < len(names):
        yield "shards must be called ratings-00000.parquet and so on, each once"
    if not (0 < found.users <= MOST and 0 < found.items.count <= MOST):
        yield f"users and items must be 1 to {MOST}"
    if found.users != sum(group.users for group in groups):
        yield "the users of all row groups are not as many as it says"
    if found.ratings != sum(group.ratings for group in groups):
        yield "the ratings of all row groups are not as many as it says"
    for number, group in enumerate(groups):
        without = group.without_ratings
        if group.users < 1 or not 0 <= without <= group.users or group.ratings < group.users - without:
            yield f"row group {number} of all cannot have these numbers of users and ratings"


def digest_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def readable(file: StoredFile) -> Iterator[None]:
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
            f"{file.label} cannot be read ({reason}); bring it back or write the shards again."
        ) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file.label} is not a readable Parquet file ({reason}); write it again."
        ) from error


_TITLE = "title"


def write_catalogue(folder: Path, ids: NDArray[np.str_], titles: tuple[str, ...] | None) -> Items:
    """Write the items, with a title for each or with none at all; returns what the manifest says of them."""
    import pyarrow as pa
    from pyarrow import parquet as arrow_parquet

    columns = {ITEM: pa.array(ids.tolist(), pa.string())}
    if titles is not None:
        columns[_TITLE] = pa.array(titles, pa.string())
    with open_private(folder / ITEMS) as stream:
        arrow_parquet.write_table(pa.table(columns), stream, compression="ZSTD")
    return Items(file=ITEMS, sha256=digest_of(folder / ITEMS), count=int(ids.size), titles=titles is not None)


def read_catalogue(folder: Path, told: Items) -> tuple[NDArray[np.str_], tuple[str, ...] | None]:
    """Ids, shape (n_items,), and titles of the items.

    Args:
        folder: of the shards.
        told: what the manifest says of them.

    Raises:
        InputError: the file is missing, damaged, or not the one that the manifest tells of.
    """
    from pyarrow import parquet as arrow_parquet

    file = StoredFile(path=folder / told.file)
    with file.open() as stream, readable(file):
        if digest_of(file.path) != told.sha256:
            raise InputError(
                f"{file.label} is not the file that the manifest tells of (its digest differs): it was cut, "
                "changed, or exchanged; bring back the right one or write the shards again."
            )
        names = [ITEM, *([_TITLE] if told.titles else [])]
        opened = arrow_parquet.ParquetFile(stream)
        if any(name not in opened.schema_arrow.names for name in names):
            raise InputError(
                f"{file.label} must have the columns {', '.join(names)}; write the shards again."
            )
        table = opened.read(columns=names)
        columns = [table.column(name).to_pylist() for name in names]
    texts = all(isinstance(cell, str) for column in columns for cell in column)
    if table.num_rows != told.count or not texts or len(set(columns[0])) < told.count:
        raise InputError(
            f"{file.label} must name {told.count} items, each once, in texts; write the shards again."
        )
    ids = np.array(columns[0], dtype=np.str_)
    return ids, tuple(columns[1]) if told.titles else None
