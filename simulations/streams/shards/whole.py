"""Sources that are in order already: those that are only ever read whole, if they fit, and made-up people."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedboard.common.errors import InputError
from fedboard.simulations.datasets.ratings import Ratings
from fedboard.simulations.datasets.readers import DataSource
from fedboard.simulations.datasets.sorted_users import SortedUsers
from fedboard.simulations.datasets.synthetic.people import PeopleStream
from fedboard.simulations.streams.shards.room import in_words
from fedboard.simulations.streams.shards.writing import in_parts

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
