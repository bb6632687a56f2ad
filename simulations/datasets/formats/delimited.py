"""Any comma- or tab-separated file with a header line, its columns named by a mapping."""

from functools import partial

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, require_columns
from fedboard.simulations.datasets.formats.blocks import Blocks
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import TextLayout, first_line, header, read_text, text_blocks

ENDINGS = {".csv": ("csv", ",", "comma"), ".tsv": ("tsv", "\t", "tab")}
"""Ending to the name of the format, what stands between two cells, and how that is called."""


def _recognises(looks: Looks, ending: str) -> bool:
    return looks.file.suffix == ending


def _delimiter(file: StoredFile, usual: str) -> str:
    """What stands between two cells; a semicolon where spreadsheets of many countries wrote the file."""
    line = first_line(file)
    return ";" if usual not in line and ";" in line else usual


def _require_columns(file: StoredFile, wanted: ColumnMapping, delimiter: str) -> list[str]:
    """Names of all columns.

    Raises:
        InputError: one of those that are wanted is missing.
    """
    names = header(file, _delimiter(file, delimiter))
    require_columns(f"{file.label}, line 1", names, wanted)
    return names


def _look(file: StoredFile, wanted: ColumnMapping, delimiter: str) -> None:
    _require_columns(file, wanted, delimiter)


def _read(file: StoredFile, asked: Asked, delimiter: str) -> RawColumns:
    """Read a file with a header line; ids may be any text.

    Raises:
        InputError: a column is missing, or see ``read_text``.
    """
    return read_text(file, _layout(file, asked, delimiter))


def _blocks(file: StoredFile, asked: Asked, delimiter: str) -> Blocks:
    """The same, a block at a time."""
    return text_blocks(file, _layout(file, asked, delimiter))


def _layout(file: StoredFile, asked: Asked, delimiter: str) -> TextLayout:
    """Of a file, by its header.

    Raises:
        InputError: a column is missing.
    """
    names = _require_columns(file, asked.mapping, delimiter)
    return TextLayout(
        delimiter=_delimiter(file, delimiter),
        columns=tuple(names),
        mapping=asked.mapping,
        header=True,
        whole_number_ids=False,
        quoted=True,
        any_times=True,
    )


READERS = tuple(
    Reader(
        name=name,
        what=f"any {word}-separated table with a header line",
        given_as="the file, with `data.columns` and `data.rating_range`",
        read=partial(_read, delimiter=delimiter),
        blocks=partial(_blocks, delimiter=delimiter),
        recognises=partial(_recognises, ending=ending),
        times=True,
        generic=True,
        columns=partial(_look, delimiter=delimiter),
        needs_pyarrow=True,
    )
    for ending, (name, delimiter, word) in ENDINGS.items()
)
