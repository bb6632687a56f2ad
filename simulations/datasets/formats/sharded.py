"""A sharded data set, read whole: for what does not go through blocks of users."""

from dataclasses import replace

from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.named import MANIFEST
from fedboard.simulations.datasets.ratings import Ratings
from fedboard.simulations.datasets.shards import load_shards, open_shards


def _recognises(looks: Looks) -> bool:
    """By the name of its manifest."""
    return looks.file.base_name == MANIFEST


def _of_file(file: StoredFile) -> Reader:
    """The reader with what the manifest says.

    Raises:
        InputError: it is in an archive, or no manifest.
    """
    if file.member is not None:
        raise InputError(f"{file.label}: shards are read from a folder; unpack the archive.")
    shards = open_shards(file.path.parent)
    return replace(
        READERS[0],
        rating_range=shards.rating_range,
        presence=shards.presence,
        lists_items=shards.items_listed,
        times=shards.has_times,
    )


def _read(file: StoredFile, asked: Asked) -> Ratings:
    """Read all shards.

    Raises:
        InputError: they cannot be read.
    """
    return load_shards(file.path.parent, times=asked.times)


READERS = (
    Reader(
        name="shards",
        what="a sharded data set that `fedboard data shard` has made",
        given_as="the folder, or its `shards.json`",
        read=_read,
        recognises=_recognises,
        file_name=MANIFEST,
        of_file=_of_file,
        needs_pyarrow=True,
    ),
)
