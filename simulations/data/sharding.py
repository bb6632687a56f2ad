"""From any source of ratings to a sharded data set: it appears whole, or not at all.

Whether the disk has room is seen before it is filled with what would then be of no use.
"""

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedboard.client.private_files import make_private_folder
from fedboard.common.checks import require_whole
from fedboard.common.errors import InputError, StorageError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.simulations.data.loading import Looked, load_ratings, look_at
from fedboard.simulations.data.named import MANIFEST, is_made_up, is_sharded
from fedboard.simulations.data.reader import Rows
from fedboard.simulations.data.readers import DataSource
from fedboard.simulations.data.shard_files import MOST, Manifest, ShardWriter
from fedboard.simulations.data.sorting import SortedUsers
from fedboard.simulations.data.stream import HeldStream, UserStream
from fedboard.simulations.data.synthetic.people import is_people, open_people
from fedboard.simulations.data.workbench import workbench

LEAST_MEMORY = 1 << 28
"""With which duckdb sorts on disk."""
_SHARD_ROW_BYTES = 12
"""A rating with its time in a shard, at most; most are smaller."""

_SPARE = 1 << 26
"""Bytes of the disk that are left to everybody else."""
_FACTOR = 6
"""Memory that reading a source whole takes at most, in its unpacked sizes."""
_USERS_AT_ONCE = 1 << 13

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

    @property
    def how(self) -> dict[str, Any]:
        """Those of ``load_ratings``."""
        names = ("format", "columns", "rating_range", "titles", "catalogue")
        return {name: getattr(self, name) for name in names}

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: one is too small.
        """
        require_whole("ratings in a shard", self.shard_ratings)
        require_whole("bytes of memory", self.memory, least=LEAST_MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Source:
    """Users in order, some at a time, and what is known of all of them. Private."""

    users: Iterator[SortedUsers]
    times: bool
    n_rows: int | None
    """How many ratings; None: not known before they are made."""
    ids: NDArray[np.str_]
    """Of the items."""
    titles: tuple[str, ...] | None
    told: dict[str, Any]
    """What the manifest says of it."""


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
    told = progress if progress is not None else lambda what, done, total: None
    if is_sharded(source) or Path(source).name == MANIFEST:
        raise InputError(f"{source} is sharded already; name the data that it was made of.")
    looked = None if is_made_up(str(source)) else _look(source, options)
    with _appearing(out) as (shards, work), ExitStack() as stack:
        if is_people(str(source)):
            found = _of_stream(open_people(str(source)))
        elif looked is None or looked.found.reader.whole:
            found = _of_stream(_held(source, looked, options))
        else:
            told("reading", 0, None)
            found = _on_bench(looked, options, work, stack)
            told("reading", found.n_rows or 0, found.n_rows)
        return _written(found, shards, options, told)


def _written(found: _Source, shards: Path, options: ShardOptions, told: Progress) -> Manifest:
    writer, done = ShardWriter(folder=shards, times=found.times, shard_ratings=options.shard_ratings), 0
    if found.n_rows is not None:
        _require_room(shards, _SHARD_ROW_BYTES * found.n_rows)
    try:
        for users in found.users:
            if found.n_rows is None:
                _require_room(shards, _SHARD_ROW_BYTES * users.items.size)
            writer.add(users)
            done += users.items.size
            told("writing shards", done, found.n_rows)
        return writer.finish(found.ids, found.titles, **found.told)
    finally:
        writer.abandon()


def _look(source: str | Path, options: ShardOptions) -> Looked:
    """See that the source can be read, and whether it says when."""
    looked = look_at(source, **options.how)
    return look_at(source, **options.how, times=True) if _timed(looked, options) else looked


def _timed(looked: Looked, options: ShardOptions) -> bool:
    reader = looked.found.reader
    return options.times and reader.times and (not reader.generic or looked.columns.time is not None)


def _held(source: str | Path, looked: Looked | None, options: ShardOptions) -> HeldStream:
    """A source that is read whole, or made up whole."""
    if looked is not None:
        _require_fits(looked.found, options.memory)
    ratings = load_ratings(source, **options.how)
    if ratings.test is not None:
        raise InputError(
            f"{source} brings a test part of its own, and shards have no place for one; write all of its ratings "
            "as one table, and let split.test or split.folds divide them."
        )
    return HeldStream.of_ratings(ratings)


def _of_stream(stream: UserStream) -> _Source:
    """Of ratings that are made up, or read whole; they say nothing of times."""
    if stream.n_users > MOST:
        raise InputError(
            f"{stream.name}: shards hold at most {MOST} users; made-up people need no files, name them to the run"
        )

    def users() -> Iterator[SortedUsers]:
        for start in range(0, stream.n_users, _USERS_AT_ONCE):
            some = stream.read(start, min(start + _USERS_AT_ONCE, stream.n_users))
            yield SortedUsers(
                keys=some.keys, ends=some.indptr, items=some.items, values=some.ratings, times=None
            )

    return _Source(
        users=users(),
        times=False,
        n_rows=None,
        ids=stream.item_ids,
        titles=stream.titles,
        told={
            "name": stream.name,
            "rating_range": stream.rating_range,
            "presence": stream.presence,
            "items_listed": stream.items_listed,
        },
    )


def _on_bench(looked: Looked, options: ShardOptions, work: Path, stack: ExitStack) -> _Source:
    """Of a source that is sorted on disk."""
    bench = stack.enter_context(workbench(work, memory=options.memory))
    read = looked.read(times=_timed(looked, options))
    assert isinstance(read, Rows)  # of a format that is not read whole
    rows = looked.sorted(bench, read)
    return _Source(
        users=rows.users(keys=True),
        times=rows.timed,
        n_rows=rows.n_rows,
        ids=rows.item_ids,
        titles=rows.titles,
        told={
            "name": looked.found.name,
            "rating_range": looked.scale,
            "presence": looked.found.reader.presence,
            "items_listed": looked.items_listed,
        },
    )


def _require_fits(found: DataSource, memory: int) -> None:
    """See that an archive of arrays, which is read whole, may be, before it is.

    Raises:
        InputError: it would take more memory than it may, or is no archive.
    """
    try:
        with zipfile.ZipFile(found.file.path) as archive:
            needed = _FACTOR * sum(member.file_size for member in archive.infolist())
    except zipfile.BadZipFile:  # whoever reads it says so
        return
    if needed > memory:
        raise InputError(
            f"{found.file.label}: format {found.reader.name} is read whole, which may take {_in_words(needed)} of "
            f"memory, and --memory allows {_in_words(memory)}; allow more, or write the ratings as Parquet or CSV."
        )


def _require_room(folder: Path, n_bytes: int) -> None:
    """See that so many bytes more can be written to a folder.

    Raises:
        StorageError: there is no room for them.
    """
    free = shutil.disk_usage(folder).free
    if free < n_bytes + _SPARE:
        raise StorageError(
            f"{folder.parent}: {_in_words(free)} are free, and {_in_words(n_bytes + _SPARE)} are needed for the "
            "next step; nothing was kept. Free some space, or name a place on another disk with --out."
        )


def _in_words(n_bytes: float) -> str:
    """A number of bytes, for people."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"


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
        try:
            unfinished.mkdir(mode=0o700)
        except FileExistsError:
            raise InputError(
                f"{unfinished} is there: another command is at work on {out.name}, or one was cut off; if none is, "
                "delete that folder (it holds raw ratings)."
            ) from None
    shards, work = unfinished / "shards", unfinished / "runs"
    try:
        with _on_disk(out):
            make_private_folder(shards)
            make_private_folder(work)
            yield shards, work
            os.rename(shards, out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


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
