"""Amazon reviews, ratings only, of 2014 and 2018 (no header line, columns in two orders) and 2023 (with one).

Layouts: jmcauley.ucsd.edu/data/amazon (2014: user, item, rating, time), nijianmo.github.io/amazon (2018: item,
user, rating, time), amazon-reviews-2023.github.io (a header ``user_id,parent_asin,rating,timestamp``).
"""

import re
from dataclasses import replace
from functools import partial

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, require_columns
from fedboard.simulations.datasets.formats.blocks import Blocks
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import TextLayout, cells_of, header, read_text, text_blocks

_TIME = "timestamp"
_MILLISECONDS = 1000
"""In which those of 2023 count."""
_USER_FIRST = ("user", "item", "rating", _TIME)
_ITEM_FIRST = ("item", "user", "rating", _TIME)
_OF_2023 = ColumnMapping(user="user_id", item="parent_asin", rating="rating", time=_TIME)
# An item is ten characters, a book's number or one from B on; a user begins with an A: they never look alike.
_ITEM, _USER, _REST = r"(?:B[0-9A-Z]{9}|[0-9]{9}[0-9X])", r"A[0-9A-Z]{5,30}", r"[1-5](?:\.0)?,[0-9]+"
_LINES: dict[tuple[str, ...], re.Pattern[str]] = {
    _USER_FIRST: re.compile(f"{_USER},{_ITEM},{_REST}"),
    _ITEM_FIRST: re.compile(f"{_ITEM},{_USER},{_REST}"),
}


def _recognises_order(looks: Looks, columns: tuple[str, ...]) -> bool:
    """By the first line: which of its cells is an item."""
    return _LINES[columns].fullmatch(looks.line) is not None


def _recognises_header(looks: Looks) -> bool:
    """By the names of the columns."""
    return {_OF_2023.user, _OF_2023.item, _OF_2023.rating, _TIME} <= set(cells_of(looks.line, ","))


def _read_order(file: StoredFile, asked: Asked, columns: tuple[str, ...]) -> RawColumns:
    """Read a file without a header line."""
    return read_text(file, _layout(columns, ColumnMapping(time=_TIME), header=False))


def _blocks_order(file: StoredFile, asked: Asked, columns: tuple[str, ...]) -> Blocks:
    """The same, a block at a time."""
    return text_blocks(file, _layout(columns, ColumnMapping(time=_TIME), header=False))


def _read_2023(file: StoredFile, asked: Asked) -> RawColumns:
    """Read a file with a header line, whatever other columns it has, such as the history before each rating.

    Raises:
        InputError: a column is missing, or see ``read_text``.
    """
    return read_text(file, _layout_2023(file))


def _blocks_2023(file: StoredFile, asked: Asked) -> Blocks:
    """The same, a block at a time."""
    return text_blocks(file, _layout_2023(file))


def _layout_2023(file: StoredFile) -> TextLayout:
    """Of a file, by its header.

    Raises:
        InputError: a column is missing.
    """
    names = header(file, ",")
    require_columns(f"{file.label}, line 1", names, _OF_2023)
    return replace(_layout(tuple(names), _OF_2023, header=True), times_per_second=_MILLISECONDS)


def _layout(columns: tuple[str, ...], mapping: ColumnMapping, *, header: bool) -> TextLayout:
    return TextLayout(
        delimiter=",",
        columns=columns,
        mapping=mapping,
        header=header,
        whole_number_ids=False,
        quoted=header,
        repeats=True,
    )


READERS = (
    *(
        Reader(
            name=name,
            what=f"Amazon reviews of {year}, ratings only: {', '.join(columns)}",
            given_as="the `.csv`",
            read=partial(_read_order, columns=columns),
            blocks=partial(_blocks_order, columns=columns),
            recognises=partial(_recognises_order, columns=columns),
            rating_range=(1.0, 5.0),
            times=True,
            needs_pyarrow=True,
        )
        for name, year, columns in (("amazon-2014", 2014, _USER_FIRST), ("amazon-2018", 2018, _ITEM_FIRST))
    ),
    Reader(
        name="amazon-2023",
        what="Amazon reviews of 2023, ratings only, with a header line",
        given_as="the `.csv`",
        read=_read_2023,
        blocks=_blocks_2023,
        recognises=_recognises_header,
        rating_range=(1.0, 5.0),
        times=True,
        needs_pyarrow=True,
    ),
)
