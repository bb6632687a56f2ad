"""Netflix Prize: a line ``item:``, then a line ``user,rating,date`` for each rating of it, as its README says.

Published as ``training_set/mv_0000001.txt`` and so on, one file for each film; Kaggle has put them together to
``combined_data_1.txt`` to ``combined_data_4.txt``. A folder or an archive is read whole, a file that is named
alone.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import IO

from fedboard.client.private_files import open_private
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.server.catalogue.titles import OF_NETFLIX, TitlesFile
from fedboard.simulations.data.formats.text import LARGEST_NUMBER, TextLayout, select_text
from fedboard.simulations.data.reader import Asked, Looks, Reader
from fedboard.simulations.data.sorting import Rows
from fedboard.simulations.data.splits.times import is_time, is_whole
from fedboard.simulations.data.workbench import Workbench, quoted

_ITEM_LINE = re.compile(rb"^([0-9]{1,20}):[ \t]*\r?$", re.MULTILINE)
_LINE_ENDS = re.compile(rb"(?:[ \t]*\r?\n)+")
_COLUMNS = ("user", "rating", "date")
_BLOCK_BYTES = 1 << 22


def _recognises(looks: Looks) -> bool:
    """By a first line that is ``item:`` and nothing else."""
    return _ITEM_LINE.fullmatch(looks.line.encode()) is not None


def _read(file: StoredFile, asked: Asked) -> Rows:
    """All files, in their order."""
    return Rows(
        select=partial(_select, file=file, asked=asked),
        locate=lambda row: _locate(asked.files, row),
        explain=lambda reason, _: _explain(asked.files, reason, timed=asked.times),
        largest_id=LARGEST_NUMBER,
    )


def _select(bench: Workbench, file: StoredFile, asked: Asked) -> str:
    """Write each line with its item before it, and read that.

    Raises:
        InputError: no ratings, or a line above the first item.
    """
    place, empty = bench.new_file(), True
    with open_private(place) as plain:
        for one in asked.files:
            with one.open() as stream:
                for item, lines in _pieces(stream):
                    kept = _LINE_ENDS.sub(b"\n", lines).strip(b"\n")
                    if not kept:
                        continue
                    if item is None or item > LARGEST_NUMBER:
                        raise InputError(_explain((one,), "a rating above the first item", timed=asked.times))
                    before = b"%d," % item
                    plain.write(before + kept.replace(b"\n", b"\n" + before) + b"\n")
                    empty = False
    if empty:
        raise InputError(f"{file.label} holds no ratings; give a file with at least one.")
    mapping = ColumnMapping(time="date" if asked.times else None)
    layout = TextLayout(
        delimiter=",",
        columns=("item", *_COLUMNS),
        mapping=mapping,
        whole_number_ids=True,
        any_times=True,
    )
    return select_text(quoted(str(place)), layout)


def _pieces(stream: IO[bytes]) -> Iterator[tuple[int | None, bytes]]:
    """The item and lines of its ratings, in the order of the file; an item may come in several pieces.

    Yields:
        None for the item of lines above the first ``item:``.
    """
    item: int | None = None
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
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


def _explain(files: tuple[StoredFile, ...], reason: str, *, timed: bool) -> str:
    """The message for files that could not be read, from a pass that looks at each line."""
    for file in files:
        named = False
        with file.open() as stream:
            for number, line in enumerate(stream, start=1):
                fault = _fault(line.strip(), named=named, timed=timed)
                if fault is not None:
                    return f"{file.label}, line {number}: {fault}; correct or remove the line."
                named = named or bool(line.strip())
    return f"{files[0].label} cannot be read as lines `item:` and `user,rating,date` ({reason}); correct the file."


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
        recognises=_recognises,
        rating_range=(1.0, 5.0),
        times=True,
        file_name=file_name,
        titles=TitlesFile(name=titles, layout=OF_NETFLIX, features=False, above=above),
    )
    for name, what, file_name, titles, above in (
        ("netflix", "Netflix Prize", "mv_*.txt", "movie_titles.txt", True),
        ("netflix-combined", "Netflix Prize, put together", "combined_data_*.txt", "movie_titles.csv", False),
    )
)
