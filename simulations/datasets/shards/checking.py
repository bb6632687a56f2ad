"""Seeing that a shard is what its manifest says; each mistake is told by file and row group."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.rules import check_values
from fedboard.simulations.datasets.shards.manifest import ITEM, KEY, USER, Group, Manifest, Shard, schema_of
from fedboard.simulations.datasets.shards.user_rows import UserRows


@contextmanager
def readable(file: StoredFile) -> Iterator[None]:
    """Tell what pyarrow finds wrong with a Parquet file in a sentence.

    Raises:
        InputError: it is none, it is damaged, or a text in it is not UTF-8.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file.label} is not a readable Parquet file ({reason}); write it again."
        ) from error


@dataclass(frozen=True, slots=True)
class Place:
    """A row group."""

    path: Path
    group: int

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Tell what the disk or pyarrow finds wrong in a sentence.

        Raises:
            InputError: the file is not there, may not be read, or is damaged.
        """
        try:
            with readable(StoredFile(path=self.path)):
                yield
        except OSError as error:
            reason = error.strerror or " ".join(str(error).split())
            raise InputError(
                f"{self.path} cannot be read ({reason}); bring it back or write the shards again."
            ) from error

    def refuse(self, what: str) -> NoReturn:
        """Say what is wrong.

        Raises:
            InputError: always.
        """
        raise InputError(f"{self.path}, row group {self.group}: {what}; write the shards again.")

    def locate(self, row: int) -> str:
        """Name an entry of the row group, from 0."""
        return f"{self.path}, row group {self.group}, rating {row + 1}"


def digest_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_schema(path: Path, file: Any, shard: Shard, *, times: bool) -> None:
    """See that a shard has the columns and the row groups that it must have.

    Args:
        path: for messages.
        file: of pyarrow.
        shard: what the manifest says of it.
        times: whether it must say when.

    Raises:
        InputError: it has not.
    """
    for column in schema_of(times=times):
        found = [str(one.type) for one in file.schema_arrow if one.name == column.name]
        if found != [str(column.type)] and (column.name, found) != (KEY, ["int64"]):
            has = " and ".join(found) or "missing"
            raise InputError(
                f"{path}: the column {column.name!r} must be {column.type}, and is {has}; write the shards again."
            )
    rows = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    if rows != [group.rows for group in shard.groups]:
        raise InputError(
            f"{path}: its row groups have other numbers of rows than the manifest says; write the shards again."
        )


def check_users(place: Place, table: Any, first: int, group: Group) -> IntArray:
    """See that the users of a row group are those that it must have, each of them whole and in order.

    Args:
        place: for messages.
        table: their numbers, and their keys where they were read, of pyarrow.
        first: the number of the first.
        group: what the manifest says of it.

    Returns:
        The row at which each begins, int64, shape (group.users,).

    Raises:
        InputError: they are not.
    """
    if table.column(USER).null_count:
        place.refuse("the number of a user is empty")
    if KEY in table.column_names and table.column(KEY).null_count:  # all others would lose their last digits
        place.refuse("the key of a user is empty")
    users = table.column(USER).to_numpy()
    if users.size == 0 or users[0] != first:
        place.refuse(
            f"it must begin with user {first}, whose rows all stand there: shards were exchanged, or a user was "
            "split over two row groups"
        )
    same = users[1:] == users[:-1]
    if not np.all(same | (users[1:] == users[:-1] + 1)):
        place.refuse("users must stand in the order of their numbers, none left out")
    starts = np.append(0, np.flatnonzero(~same) + 1)
    if starts.size != group.users:
        place.refuse(f"it must hold {group.users} users, as the manifest says")
    return starts


def check_empty(place: Place, table: Any, starts: IntArray, group: Group) -> BoolArray | None:
    """See that just the users without ratings have an empty row, and that one alone.

    Returns:
        Which rows are ratings, shape (n_rows,); None: all.

    Raises:
        InputError: a cell is empty that must not be, or the numbers are not as the manifest says.
    """
    columns = [name for name in table.column_names if name in schema_of(times=True).names[2:]]
    for name in columns:
        if table.column(name).null_count != group.without_ratings:
            place.refuse(f"{group.without_ratings} cells of {name!r} must be empty, as the manifest says")
    if group.without_ratings == 0:
        return None
    empty: BoolArray = table.column(ITEM).is_null().to_numpy(zero_copy_only=False)
    if any(not np.array_equal(empty, table.column(name).is_null().to_numpy(False)) for name in columns):
        place.refuse("item, value and time must be empty in the same rows")
    alone = np.diff(np.append(starts, empty.size)) == 1
    if not np.all(alone[np.searchsorted(starts, np.flatnonzero(empty), side="right") - 1]):
        place.refuse("an empty row must be the only one of its user")
    return ~empty


def check_entries(place: Place, rows: UserRows, starts: IntArray, manifest: Manifest) -> UserRows:
    """See that entries are ratings of the catalogue and the range, ascending, and each user has one key.

    Args:
        place: for messages.
        rows: a key for each row yet.
        starts: the row at which each user begins.
        manifest: with catalogue and range.

    Returns:
        The same, a key for each user.

    Raises:
        InputError: one is not.
    """
    items, keys = rows.items, rows.keys
    if items.size and not (items.min() >= 0 and items.max() < manifest.items.count):
        place.refuse(f"an item number is none of the catalogue, 0 to {manifest.items.count - 1}")
    ascending = items[1:] > items[:-1]
    begins = rows.indptr[1:-1]
    ascending[begins[(begins > 0) & (begins < items.size)] - 1] = True
    if not ascending.all():
        place.refuse("the items of a user must ascend, each once")
    check_values(rows.values, manifest.rating_range, place.locate)
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    at = np.searchsorted(starts, changes)
    if changes.size and not (at.max() < starts.size and np.array_equal(starts[at], changes)):
        place.refuse("all rows of a user must have the same key")
    return replace(rows, keys=keys[starts])
