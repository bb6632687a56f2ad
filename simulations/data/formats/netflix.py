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
from fedboard.simulations.data.formats.text import TextLayout, text_table
from fedboard.simulations.data.reader import Asked, Looks, Reader, Rows, Table, rows_of_records
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
    layout = TextLayout(
        delimiter=",",
        columns=("item", *_COLUMNS),
        mapping=ColumnMapping(time="date" if asked.times else None),
        whole_number_ids=True,
        any_times=True,
    )
    return rows_of_records(
        partial(_table, file=file, files=asked.files, layout=layout),
        partial(_records, asked.files),
        lambda line: None if line.count(",") == 2 else "neither `item:` nor `user,rating,date`",
        what=f"{file.label} cannot be read as lines `item:` and `user,rating,date`",
    )


def _table(bench: Workbench, file: StoredFile, files: tuple[StoredFile, ...], layout: TextLayout) -> Table:
    """Write each line with its item before it, and read that.

    Raises:
        InputError: there are no ratings, or some of no item.
    """
    place, empty = bench.new_file(), True
    with open_private(place) as plain:
        for one in files:
            with one.open() as stream:
                for item, lines in _pieces(stream):
                    kept = _LINE_ENDS.sub(b"\n", lines).strip(b"\n")
                    if kept and not item:
                        raise InputError(f"{one.label}: the first line must be `item:`; correct the file.")
                    if kept:
                        before = b"%s," % item
                        plain.write(before + kept.replace(b"\n", b"\n" + before) + b"\n")
                        empty = False
    if empty:
        raise InputError(f"{file.label} holds no ratings; give a file with at least one.")
    return text_table(quoted(str(place)), layout)


def _pieces(stream: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The item and lines of its ratings, in the order of the file; an item may come in several pieces.

    Yields:
        No item for lines above the first ``item:``.
    """
    item = rest = b""
    while block := stream.read(_BLOCK_BYTES):
        whole, end, rest = (rest + block).rpartition(b"\n")
        for named, lines in _divided(item, whole + end):
            yield named, lines
            item = named
    yield from _divided(item, rest)


def _divided(item: bytes, lines: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Whole lines, divided at those that name an item; the first of them are ``item``'s."""
    start = 0
    for found in _ITEM_LINE.finditer(lines):
        yield item, lines[start : found.start()]
        item, start = _plain(found[1]), found.end()
    yield item, lines[start:]


def _records(files: tuple[StoredFile, ...]) -> Iterator[tuple[str, str]]:
    """Each line that is not empty and names no item, after its place."""
    for file in files:
        with file.open() as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip() and not _ITEM_LINE.fullmatch(line.rstrip()):
                    yield f"{file.label}, line {number}", line.decode(errors="replace")


def _plain(number: bytes) -> bytes:
    """Without zeros before it."""
    return number.lstrip(b"0") or b"0"


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
