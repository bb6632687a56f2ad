"""Small public tables about items, such as titles and genres: read whole, line by line, with line numbers.

Such a file is the catalogue.
"""

import csv
import io
from dataclasses import dataclass
from typing import Final

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import Place, StoredFile

_MOST_BYTES, _PIECE = 1 << 30, 1 << 20


def numbered_lines(
    file: StoredFile, *, delimiter: str, encodings: tuple[str, ...], quoted: bool = True
) -> list[tuple[int, list[str]]]:
    """Cells of each line that is not empty, with its number.

    Args:
        file: the table. Public.
        delimiter: ``,`` or a tab, where cells may be quoted; or ``|`` or ``::``, where they may not.
        encodings: tried in this order.
        quoted: whether cells may be quoted, with the delimiters that allow it.

    Raises:
        InputError: the file cannot be read, is text in none of the encodings, or is no table.
    """
    text = _decode(file, encodings)
    if quoted and delimiter in (",", "\t"):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            return [(reader.line_num, cells) for cells in reader if cells]
        except csv.Error as error:
            raise InputError(
                f"{file.label}, line {reader.line_num}: not a table of cells ({error})."
            ) from error
    # Not splitlines: it also splits at characters that Latin-1 titles may contain.
    lines = text.replace("\r\n", "\n").split("\n")
    return [(number, line.split(delimiter)) for number, line in enumerate(lines, 1) if line]


def _decode(file: StoredFile, encodings: tuple[str, ...]) -> str:
    pieces, size = [], 0
    with file.open() as stream:
        while size <= _MOST_BYTES and (
            piece := stream.read(_PIECE)
        ):  # a read takes what it may take, at once
            pieces.append(piece)
            size += len(piece)
    content = b"".join(pieces)
    if size > _MOST_BYTES:
        raise InputError(
            f"{file.label} is larger than {_MOST_BYTES >> 20} MiB unpacked: that is no list of items."
        )
    for encoding in encodings:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise InputError(f"{file.label} is not text in {encodings[0]}; save it in that encoding.")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TitlesFile:
    """A file of titles that belongs to a format of ratings."""

    name: str
    layout: TitleLayout
    features: bool = True
    """Whether it says more of the items than their titles, such as their genres."""
    above: bool = False
    """Whether it may lie in the folder above the ratings."""

    def beside(self, place: Place) -> StoredFile | None:
        """The file, where the ratings lie at ``place``; None where it is missing."""
        found = place.find(self.name)
        above = StoredFile(path=place.path.resolve().parent / self.name)
        if found is None and self.above and place.path.is_dir() and above.path.is_file():
            return above
        return found


OF_100K: Final = TitlesFile(name="u.item", layout=TitleLayout(delimiter="|", encodings=("latin-1",)))
OF_1M: Final = TitlesFile(
    name="movies.dat", layout=TitleLayout(delimiter="::", encodings=("utf-8", "latin-1"))
)
"""Also of 10M: 1M is in Latin-1, 10M in UTF-8."""
COLUMNS_20M: Final = ColumnMapping(user="userId", item="movieId", rating="rating", title="title")
OF_20M: Final = TitlesFile(
    name="movies.csv", layout=TitleLayout(delimiter=",", encodings=("utf-8-sig",), mapping=COLUMNS_20M)
)
"""Also of later ones and of "latest"."""
