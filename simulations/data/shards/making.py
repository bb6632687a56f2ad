"""From any source of ratings to a sharded data set: it appears whole, or not at all."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from fedboard.client.private_files import make_private_folder
from fedboard.common.checks import require_whole
from fedboard.common.errors import InputError, StorageError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.simulations.data.loading import Looked, load_ratings, look_at
from fedboard.simulations.data.named import is_made_up, is_sharded
from fedboard.simulations.data.reader import Asked
from fedboard.simulations.data.shards.manifest import MOST, Manifest, write_catalogue
from fedboard.simulations.data.sorting import Listed, Rows, SortedRows
from fedboard.simulations.data.synthetic.people import PeopleStream, is_people, open_people
from fedboard.simulations.data.workbench import workbench
from fedboard.simulations.streams.shards.whole import (
    require_fits,
    require_room,
    sorted_users,
    users_of_people,
)
from fedboard.simulations.streams.shards.writing import (
    GROUP_RATINGS,
    About,
    ShardWriter,
    about,
    write_manifest,
)

LEAST_MEMORY = 1 << 28
"""With which duckdb sorts on disk."""
_SHARD_ROW_BYTES = 12
"""A rating with its time in a shard, at most; most are smaller."""

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many rows of it are done, and of how many; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """How a source is read and cut. Public."""

    format: str | None = None
    columns: ColumnMapping | None = None
    rating_range: tuple[float, float] | None = None
    titles: str | Path | None = None
    catalogue: Literal["rated", "listed"] = "rated"
    """These as for ``load_ratings``."""
    times: bool = True
    """Whether to keep when ratings were given, where the source says so."""
    shard_ratings: int = 1 << 24
    """Most ratings in a shard; users are whole in each."""
    memory: int = 1 << 30
    """Bytes that sorting may take, beside the program itself and the catalogue."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: one is too small.
        """
        require_whole("ratings in a shard", self.shard_ratings)
        require_whole("bytes of memory", self.memory, least=LEAST_MEMORY)


def shard_ratings(
    source: str | Path, out: Path, options: ShardOptions, *, progress: Progress | None = None
) -> Manifest:
    """Make a sharded data set of whatever ``load_ratings`` reads.

    Rows are read once, checked and sorted by duckdb beside ``out``. Formats that are numbered already are read
    whole, if ``memory`` allows it.

    Guarantee: the data set is that which ``load_ratings`` gives, to the bit, or there is none: ``out`` appears at
    the end and whole. Its files are readable by their owner alone.

    Args:
        source: path, or the word ``synthetic``.
        out: a folder that is not there yet, or empty.
        options: how.
        progress: told how it is getting on.

    Returns:
        What the manifest says. Private.

    Raises:
        InputError: the source cannot be used as it is, or there is something at ``out``.
        StorageError: the disk is full.
    """
    told = progress if progress is not None else _silent
    if is_sharded(source):
        raise InputError(f"{source} is sharded already; name the data that it was made of.")
    looked = None if is_made_up(str(source)) else _look(source, options)
    with _appearing(out) as (shards, work):
        if is_people(str(source)):
            return _from_people(open_people(str(source)), shards, options, told)
        if looked is None or looked.found.reader.whole:
            return _from_memory(source, shards, options, looked, told)
        return _from_disk(looked, shards, work, options, told)


def _look(source: str | Path, options: ShardOptions) -> Looked:
    """See that the source can be read, and whether it says when."""
    look = partial(
        look_at,
        source,
        format=options.format,
        columns=options.columns,
        rating_range=options.rating_range,
        titles=options.titles,
        catalogue=options.catalogue,
    )
    looked = look()
    return look(times=True) if _timed(looked, options) else looked


def _timed(looked: Looked, options: ShardOptions) -> bool:
    reader = looked.found.reader
    return options.times and reader.times and (not reader.generic or looked.columns.time is not None)


def _from_memory(
    source: str | Path, shards: Path, options: ShardOptions, looked: Looked | None, told: Progress
) -> Manifest:
    """Of a source that is read whole."""
    if looked is not None:
        require_fits(looked.found, options.memory)
    ratings = load_ratings(
        source,
        format=options.format,
        columns=options.columns,
        rating_range=options.rating_range,
        titles=options.titles,
        catalogue=options.catalogue,
        times=looked is not None and _timed(looked, options),
    )
    if ratings.test is not None:
        raise InputError(
            f"{source} brings a test part of its own, and shards have no place for one; write all of its ratings "
            "as one table, and let split.test or split.folds divide them."
        )
    require_room(shards, _SHARD_ROW_BYTES * ratings.n_ratings)
    writer = _writer(shards, options, times=ratings.times is not None)
    with _closing(writer):
        for users in sorted_users(ratings, writer.group_ratings):
            writer.add(users)
            told("writing shards", writer.n_ratings, ratings.n_ratings)
        writer.finish()
    items = write_catalogue(shards, ratings.item_ids, ratings.titles)
    return write_manifest(shards, about(ratings), items, writer)


def _from_people(people: PeopleStream, shards: Path, options: ShardOptions, told: Progress) -> Manifest:
    """Of made-up people, a block of whom is made at a time."""
    if people.n_users > MOST:
        raise InputError(
            f"{people.name}: shards hold at most {MOST} users; made-up people need no files, name them to the run"
        )
    writer = _writer(shards, options, times=False)
    with _closing(writer):
        for users in users_of_people(people):
            require_room(shards, _SHARD_ROW_BYTES * users.items.size)
            writer.add(users)
            told("writing shards", writer.n_ratings, None)
        writer.finish()
    items = write_catalogue(shards, people.item_ids, people.titles)
    return write_manifest(shards, about(people), items, writer)


def _from_disk(looked: Looked, shards: Path, work: Path, options: ShardOptions, told: Progress) -> Manifest:
    """Of a source that is sorted on disk."""
    found, listed = looked.found, looked.listed
    rated_only = options.catalogue == "rated"
    read = found.reader.read(
        found.file,
        Asked(
            columns=looked.columns,
            rating_range=looked.scale,
            titles=listed,
            files=found.files or (found.file,),
            times=_timed(looked, options),
        ),
    )
    assert isinstance(read, Rows)  # of a format that is not read whole
    told("reading", 0, None)
    with workbench(work, memory=options.memory) as bench:
        rows = SortedRows(
            bench,
            read,
            label=found.file.label,
            scale=looked.scale,
            listed=None if listed is None else Listed(titles=listed, rated_only=rated_only),
        )
        told("reading", rows.n_rows, None)
        require_room(shards, _SHARD_ROW_BYTES * rows.n_rows)
        writer, done = _writer(shards, options, times=rows.timed), 0
        with _closing(writer):
            for users in rows.users(keys=True):
                writer.add(users)
                done += users.items.size
                told("writing shards", done, rows.n_rows)
            writer.finish()
        known = About(
            name=found.name,
            rating_range=looked.scale,
            presence=found.reader.presence,
            items_listed=listed is not None and not rated_only,
        )
        return write_manifest(shards, known, write_catalogue(shards, rows.item_ids, rows.titles), writer)


def _writer(shards: Path, options: ShardOptions, *, times: bool) -> ShardWriter:
    return ShardWriter(
        folder=shards,
        times=times,
        shard_ratings=options.shard_ratings,
        group_ratings=min(GROUP_RATINGS, options.shard_ratings),
    )


@contextmanager
def _appearing(out: Path) -> Iterator[tuple[Path, Path]]:
    """Two private folders: what is written to the first becomes ``out``; the second is for work, and goes away.

    Raises:
        InputError: there is something at ``out``, or another one is at work on it.
        StorageError: it cannot be written there.
    """
    out = out.absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is there already; choose another place, or delete it first.")
    unfinished = out.with_name(f".{out.name}.unfinished")
    with _on_disk(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        _claim(unfinished, out.name)
    shards, work = unfinished / "shards", unfinished / "runs"
    try:
        with _on_disk(out):
            make_private_folder(shards)
            make_private_folder(work)
            yield shards, work
            os.rename(shards, out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _claim(unfinished: Path, name: str) -> None:
    try:
        unfinished.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError(
            f"{unfinished} is there: another command is at work on {name}, or one was cut off; if none is, "
            "delete that folder (it holds raw ratings)."
        ) from None


@contextmanager
def _on_disk(out: Path) -> Iterator[None]:
    """Tell in a sentence what the disk does not take."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{error.filename or out}: {error.strerror or error}; nothing was kept. Free some space, or name a "
            "place on another disk with --out."
        ) from error


@contextmanager
def _closing(writer: ShardWriter) -> Iterator[None]:
    try:
        yield
    finally:
        writer.abandon()


def _silent(what: str, done: int, total: int | None) -> None:
    """Nobody watches."""
