"""RecBole's atomic files: ``NAME.inter``, by tabs, its header line of ``field:type``.

Layout: recbole.io, user guide, "Atomic Files". Cells are not quoted. What scale its ratings have it does not say.
"""

import re
from dataclasses import replace

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.listing import numbered_lines
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.simulations.datasets.columns import RawColumns, require_columns, title_field
from fedboard.simulations.datasets.formats.blocks import Blocks
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import TextLayout, first_line, read_text, text_blocks

_COLUMNS = ColumnMapping(user="user_id:token", item="item_id:token", rating="rating:float")
_TIME = "timestamp:float"
_FIELD = re.compile(r"[^\s:]+:(?:token|float)(?:_seq)?")


def _recognises(looks: Looks) -> bool:
    """By a header line in which each field says its type."""
    return all(_FIELD.fullmatch(cell) is not None for cell in looks.line.split("\t"))


def _header(file: StoredFile) -> list[str]:
    """Names of all columns.

    Raises:
        InputError: user, item or rating is missing.
    """
    names = first_line(file).split("\t")
    require_columns(f"{file.label}, line 1", names, _COLUMNS)
    return names


def _look(file: StoredFile, wanted: ColumnMapping) -> None:
    """See that the format's own columns are there."""
    _header(file)


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read the ratings.

    Raises:
        InputError: several files to choose from, a column is missing, or see ``read_text``.
    """
    return read_text(file, _layout(file, asked))


def _blocks(file: StoredFile, asked: Asked) -> Blocks:
    """The same, a block at a time."""
    return text_blocks(file, _layout(file, asked))


def _layout(file: StoredFile, asked: Asked) -> TextLayout:
    """Of a file, by its header.

    Raises:
        InputError: several files to choose from, or a column is missing.
    """
    if len(asked.files) > 1:
        found = ", ".join(one.base_name for one in asked.files)
        raise InputError(f"{file.label} is one of several ({found}); give the path of the one to read.")
    names = _header(file)
    if asked.times:
        require_columns(f"{file.label}, line 1", names, replace(_COLUMNS, time=_TIME))
    layout = TextLayout(
        delimiter="\t",
        columns=tuple(names),
        mapping=_COLUMNS,
        header=True,
        whole_number_ids=False,
        quoted=False,
        any_times=True,
    )
    return layout.timed(asked.times, _TIME)


def _titles(file: StoredFile, place: Place) -> dict[str, str] | None:
    """What ``NAME.item`` beside the ratings lists, where it has a field of titles."""
    stored = place.find(f"{file.base_name.removesuffix('.inter')}.item")
    if stored is None:
        return None
    lines = numbered_lines(stored, delimiter="\t", encodings=("utf-8-sig",), quoted=False)
    names = lines[0][1] if lines else []
    title = title_field(names)
    if title is None or _COLUMNS.item not in names:
        return None
    item_at, title_at = names.index(_COLUMNS.item), names.index(title)
    for number, cells in lines[1:]:
        if len(cells) != len(names):
            raise InputError(
                f"{stored.label}, line {number}: {len(cells)} fields where {len(names)} are expected; correct it."
            )
    return {cells[item_at]: cells[title_at] for _, cells in lines[1:]}


READERS = (
    Reader(
        name="recbole",
        what="RecBole's atomic files, with ratings",
        given_as="the folder, the `.zip`, or the `.inter`, with `data.rating_range`",
        read=_read,
        blocks=_blocks,
        recognises=_recognises,
        file_name="*.inter",
        titles_of=_titles,
        times=True,
        columns=_look,
        needs_pyarrow=True,
    ),
)
