"""Files that list the items with their titles. Public: such a file is the catalogue."""

from dataclasses import dataclass
from typing import Final

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.listing import numbered_lines
from fedboard.server.catalogue.stored_file import StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleLayout:
    """How a file lists titles."""

    delimiter: str
    """``,``, a tab, ``|`` or ``::``; cells may be quoted with the first two."""
    encodings: tuple[str, ...]
    """Tried in this order."""
    mapping: ColumnMapping | None = None
    """Where there is a header line: its columns for item and title. Else the id comes first."""
    title_at: int = 1
    """Where there is no header line: the position of the title."""
    rest_is_title: bool = False
    """Whether a title may contain the delimiter: it reaches to the end of the line, and nothing is quoted."""


OF_NETFLIX: Final = TitleLayout(delimiter=",", encodings=("latin-1",), title_at=2, rest_is_title=True)
"""``movie_titles.txt`` of the Netflix Prize: ``item,year,title``."""


def read_titles(file: StoredFile, layout: TitleLayout) -> dict[str, str]:
    """Item id to title, in the order of the file; a title may be empty.

    Raises:
        InputError: unreadable text, a missing column, a line without a title column, or no line at all.
    """
    records = numbered_lines(
        file, delimiter=layout.delimiter, encodings=layout.encodings, quoted=not layout.rest_is_title
    )
    item, title = 0, layout.title_at
    if layout.mapping is not None and records:
        item, title = _positions(file, records.pop(0)[1], layout.mapping)
    titles: dict[str, str] = {}
    for number, cells in records:
        if len(cells) <= max(item, title):
            raise InputError(
                f"{file.label}, line {number}: no title column ({len(cells)} columns); correct the line."
            )
        last = None if layout.rest_is_title else title + 1
        titles[cells[item].strip()] = layout.delimiter.join(cells[title:last]).strip()
    if not titles:
        raise InputError(f"{file.label} lists no items; give a file of titles with at least one item.")
    return titles


def layout_of(file: StoredFile, mapping: ColumnMapping) -> TitleLayout:
    """The layout of a file of titles that somebody names, told by its ending.

    Args:
        file: the file.
        mapping: the columns of the ratings, used where the file has no ``movieId`` column.
    """
    if file.base_name == "u.item":
        return TitleLayout(delimiter="|", encodings=("latin-1",))
    if file.base_name in ("movie_titles.txt", "movie_titles.csv"):
        return OF_NETFLIX
    if file.suffix == ".dat":
        return TitleLayout(delimiter="::", encodings=("utf-8", "latin-1"))
    delimiter = "\t" if file.suffix == ".tsv" else ","
    return TitleLayout(delimiter=delimiter, encodings=("utf-8-sig",), mapping=mapping)


def _positions(file: StoredFile, header: list[str], mapping: ColumnMapping) -> tuple[int, int]:
    item = next((name for name in (mapping.item, "movieId") if name in header), None)
    if item is None or mapping.title not in header:
        missing = mapping.item if item is None else mapping.title
        raise InputError(
            f"{file.label}, line 1: there is no column {missing!r}, only {', '.join(header)}; "
            "name the columns for item and title with a column mapping."
        )
    return header.index(item), header.index(mapping.title)
