"""Whether the disk has room, before it is filled with what would then be of no use.

Sources that are in order already: those that are only ever read whole, if they fit, and made-up people.
"""

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedboard.common.errors import InputError, StorageError
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.readers import DataSource
from fedboard.simulations.data.sorting import SortedUsers
from fedboard.simulations.data.synthetic.people import PeopleStream
from fedboard.simulations.streams.shards.writing import in_parts

_SPARE = 1 << 26
"""Bytes that are left to everybody else."""


def require_room(folder: Path, n_bytes: int) -> None:
    """See that so many bytes more can be written to a folder.

    Raises:
        StorageError: there is no room for them.
    """
    free = shutil.disk_usage(folder).free
    if free < n_bytes + _SPARE:
        raise StorageError(
            f"{folder.parent}: {in_words(free)} are free, and {in_words(n_bytes + _SPARE)} are needed for the next "
            "step; nothing was kept. Free some space, or name a place on another disk with --out."
        )


def in_words(n_bytes: float) -> str:
    """A number of bytes, for people."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"


_FACTOR = 6
"""Memory that reading takes at most, in unpacked sizes of the file."""
_PEOPLE_AT_ONCE = 1 << 13


def require_fits(found: DataSource, memory: int) -> None:
    """See that a source which is read whole may be, before it is.

    Args:
        found: the source.
        memory: bytes that may be taken.

    Raises:
        InputError: it would take more.
    """
    needed = _FACTOR * _unpacked(found)
    if needed > memory:
        raise InputError(
            f"{found.file.label}: format {found.reader.name} is read whole, which may take {in_words(needed)} of "
            f"memory, and --memory allows {in_words(memory)}; allow more, or write the ratings as Parquet or CSV."
        )


def _unpacked(found: DataSource) -> int:
    """Bytes of a source's files, unpacked where they say so: what stands beside the one named too."""
    paths = {found.file.path, *(file.path for file in found.place.files if found.files)}
    return sum(_size(path) for path in paths)


def _size(path: Path) -> int:
    if not zipfile.is_zipfile(path):
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def sorted_users(ratings: Ratings, most_ratings: int) -> Iterator[SortedUsers]:
    """All users of a data set, some at a time.

    Args:
        ratings: without a test part of its own.
        most_ratings: about as many at a time.
    """
    everybody = SortedUsers(
        keys=ratings.user_keys(),
        counts=np.bincount(ratings.users, minlength=ratings.n_users).astype(np.int64),
        items=ratings.items,
        values=ratings.values,
        times=ratings.times,
    )
    yield from in_parts(everybody, most_ratings)


def users_of_people(people: PeopleStream) -> Iterator[SortedUsers]:
    """All made-up people, some at a time."""
    for start in range(0, people.n_users, _PEOPLE_AT_ONCE):
        some = people.read(start, min(start + _PEOPLE_AT_ONCE, people.n_users))
        yield SortedUsers(
            keys=some.keys, counts=some.counts, items=some.items, values=some.ratings, times=None
        )
