"""Netflix Prize: a line ``item:``, then a line ``user,rating,date`` for each rating of it, as its README says.

Published as ``training_set/mv_0000001.txt`` and so on, one file for each film; Kaggle has put them together to
``combined_data_1.txt`` to ``combined_data_4.txt``. A folder or an archive is read whole, a file that is named
alone.
"""

import re
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError
from fedboard.server.catalogue.movielens import TitlesFile
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.server.catalogue.titles import OF_NETFLIX
from fedboard.simulations.datasets.columns import RawColumns
from fedboard.simulations.datasets.formats.blocks import Block, Blocks
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import BLOCK_BYTES, LARGEST_NUMBER
from fedboard.simulations.datasets.numbering import number_integers
from fedboard.simulations.datasets.splits.times import is_time, is_whole, times_of_arrow

_ITEM_LINE = re.compile(rb"^([0-9]{1,20}):[ \t]*\r?$", re.MULTILINE)
_COLUMNS = ("user", "rating", "date")


def _recognises(looks: Looks) -> bool:
    """By a first line that is ``item:`` and nothing else."""
    return _ITEM_LINE.fullmatch(looks.line.encode()) is not None


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read all files, a block of lines at a time.

    Raises:
        InputError: no ratings, or a line that is neither an item's nor a rating.
    """
    users: list[NDArray[Any]] = []
    values: list[NDArray[Any]] = []
    items: list[int | None] = []
    counts: list[int] = []
    times: list[IntArray] = []
    for one in asked.files:
        with one.open() as stream:
            for item, lines in _pieces(stream):
                table = _table(one, item, lines, timed=asked.times)
                if table is not None:
                    users.append(table.column("user").to_numpy())
                    values.append(table.column("rating").to_numpy())
                    items.append(item)
                    counts.append(table.num_rows)
                    when = times_of_arrow(table.column("date")) if asked.times else None
                    times += [] if when is None else [when]
    if not counts:
        raise InputError(f"{file.label} holds no ratings; give a file with at least one.")
    return RawColumns(
        users=number_integers(_joined(users)),
        items=number_integers(np.repeat(np.array(items, dtype=np.int32), counts)),
        values=_joined(values),
        locate=lambda row: _locate(asked.files, row),
        times=_joined(times) if times else None,
    )


def _blocks(file: StoredFile, asked: Asked) -> Blocks:
    """The same, a block at a time."""
    return Blocks(blocks=_each_block(asked), locate=lambda row: _locate(asked.files, row))


def _each_block(asked: Asked) -> Iterator[Block]:
    import pyarrow as pa

    for one in asked.files:
        with one.open() as stream:
            for item, lines in _pieces(stream):
                table = _table(one, item, lines, timed=asked.times)
                if table is None:
                    continue
                yield Block(
                    users=table.column("user").combine_chunks(),
                    items=pa.array(np.full(table.num_rows, item, dtype=np.int32)),
                    values=table.column("rating").to_numpy(),
                    times=times_of_arrow(table.column("date")) if asked.times else None,
                )


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """One column of its parts, which are given away: two of each column would be a third more at the peak."""
    whole = np.empty(sum(part.size for part in parts), dtype=parts[0].dtype)
    stop = whole.size
    while parts:
        part = parts.pop()
        whole[stop - part.size : stop] = part
        stop -= part.size
    return whole


def _pieces(stream: IO[bytes]) -> Iterator[tuple[int | None, bytes]]:
    """The item and lines of its ratings, in the order of the file; an item may come in several pieces.

    Yields:
        None for the item of lines above the first ``item:``.
    """
    item: int | None = None
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        whole, end, rest = (rest + block).rpartition(b"\n")
        for named, lines in _divided(item, whole + end):
            yield named, lines
            item = named
    yield from _divided(item, rest)


def _divided(item: int | None, lines: bytes) -> Iterator[tuple[int | None, bytes]]:
    """Whole lines, divided at those that name an item; the first of them are ``item``'s."""
    start = 0
    for found in _ITEM_LINE.finditer(lines):
        yield item, lines[start : found.start()]
        item, start = int(found[1]), found.end()
    yield item, lines[start:]


def _table(file: StoredFile, item: int | None, lines: bytes, *, timed: bool) -> Any:
    """The columns user and rating, and the date if it is wanted, as a ``pyarrow.Table``; None of no lines.

    Raises:
        InputError: a line is no rating, or no item was named.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if not lines.strip():
        return None
    if item is None or item > LARGEST_NUMBER:
        raise InputError(_explain(file, timed=timed))
    types = {"user": pa.int32(), "rating": pa.float32()} | ({"date": pa.date32()} if timed else {})
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(lines),
            read_options=arrow_csv.ReadOptions(
                column_names=list(_COLUMNS), block_size=len(lines) + 1, use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[],
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(_explain(file, timed=timed)) from error


def _ratings(stream: IO[bytes]) -> Iterator[int]:
    """Number of each line that is not empty and names no item."""
    for number, line in enumerate(stream, start=1):
        if line.strip() and not _ITEM_LINE.fullmatch(line.rstrip()):
            yield number


def _locate(files: tuple[StoredFile, ...], row: int) -> str:
    """File and line of the rating ``row`` (from 0), by reading up to it."""
    for file in files:
        with file.open() as stream:
            for number in _ratings(stream):
                if row == 0:
                    return f"{file.label}, line {number}"
                row -= 1
    return files[0].label


def _explain(file: StoredFile, *, timed: bool) -> str:
    """The message for a file that could not be read, from a pass that looks at each line."""
    named = False
    with file.open() as stream:
        for number, line in enumerate(stream, start=1):
            fault = _fault(line.strip(), named=named, timed=timed)
            if fault is not None:
                return f"{file.label}, line {number}: {fault}; correct or remove the line."
            named = named or bool(line.strip())
    return f"{file.label} cannot be read as lines `item:` and `user,rating,date`; correct the file."


def _fault(line: bytes, *, named: bool, timed: bool) -> str | None:
    """What is wrong with one line, or None."""
    found = _ITEM_LINE.fullmatch(line)
    if found is not None:
        return None if int(found[1]) <= LARGEST_NUMBER else f"the item is larger than {LARGEST_NUMBER}"
    if not line:
        return None
    if not named:
        return "the first line must be `item:`"
    cells = line.split(b",")
    if len(cells) != len(_COLUMNS):
        return "neither `item:` nor `user,rating,date`"
    if not is_whole(cells[0].decode(errors="replace"), LARGEST_NUMBER):
        return f"the user id is not a whole number up to {LARGEST_NUMBER}"
    try:
        float(cells[1])
    except ValueError:
        return "the rating is not a number"
    return "the date is none" if timed and not is_time(cells[2].decode(errors="replace")) else None


READERS = tuple(
    Reader(
        name=name,
        what=what,
        given_as=f"the folder, the `.zip`, or one `{file_name}`",
        read=_read,
        blocks=_blocks,
        recognises=_recognises,
        rating_range=(1.0, 5.0),
        times=True,
        file_name=file_name,
        titles=TitlesFile(name=titles, layout=OF_NETFLIX, features=False, above=above),
        needs_pyarrow=True,
    )
    for name, what, file_name, titles, above in (
        ("netflix", "Netflix Prize", "mv_*.txt", "movie_titles.txt", True),
        ("netflix-combined", "Netflix Prize, put together", "combined_data_*.txt", "movie_titles.csv", False),
    )
)
