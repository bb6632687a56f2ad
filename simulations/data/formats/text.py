"""The columns of a table, by their names.

Delimited text: read by duckdb, every cell as text; a second pass in Python finds what is wrong with a file.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from fedboard.common.checks import try_columns
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping, printable
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.reader import Column, Looks, Rows, Table, Which, rows_of_records
from fedboard.simulations.data.workbench import quoted

_TITLES = ("title", "name")


def title_field(names: Sequence[str]) -> str | None:
    """Which of the columns of a list of items holds their titles, by its name; None: none does."""
    plain = [name.partition(":")[0] for name in names]
    best = [name for wanted in _TITLES for name in plain if name == wanted or name.endswith(f"_{wanted}")]
    return None if not best else names[plain.index(best[0])]


def require_columns(where: str, found: list[str], wanted: ColumnMapping) -> None:
    """Check that each wanted column is there exactly once.

    Args:
        where: names the header in messages, such as ``ratings.csv, line 1``.
        found: the names of all columns.
        wanted: the names of the columns for user, item and rating, and of the one that says when if it is named.

    Raises:
        InputError: a column is missing or occurs twice.
    """
    names = (wanted.user, wanted.item, wanted.rating)
    if len(set(names)) < len(names):
        raise InputError(
            f"{where}: the columns for user, item and rating must differ, got {', '.join(names)}; "
            "name three different columns."
        )
    timed = () if wanted.time is None else (("time", wanted.time),)
    for role, name in (*zip(("user", "item", "rating"), names, strict=True), *timed):
        if name not in found:
            raise InputError(
                f"{where}: there is no column {name!r} for the {role}, "
                f"only {', '.join(map(printable, found))}"
                f"{_remedy(found, wanted)}"
            )
        if found.count(name) > 1:
            raise InputError(
                f"{where}: the column {name!r} occurs more than once; rename all but one of them."
            )


def _remedy(found: list[str], wanted: ColumnMapping) -> str:
    guess = try_columns(found, {"user": wanted.user, "item": wanted.item, "rating": wanted.rating})
    if guess:
        return f"{guess} (in a configuration data.columns, in Python columns)."
    return "; give a table with a header line and name its columns: --columns user=...,item=...,rating=..."


LARGEST_NUMBER = 2**31 - 1
_LONGEST_LINE = 1 << 24
_DOUBLE_COLON = "::"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How a text file lays out ratings. Public."""

    delimiter: str
    """One character, or ``::``."""
    columns: tuple[str, ...]
    """Names of all columns, in order."""
    mapping: ColumnMapping
    """Which columns hold user, item and rating, and which says when, if that is wanted."""
    header: bool = False
    """Whether the first line holds the column names."""
    whole_number_ids: bool = False
    """Whether ids must be whole numbers; else any text."""
    quoted: bool = False
    """Whether cells may be quoted, and then contain delimiters and line ends."""
    item_otherwise: str | None = None
    """Column whose text stands for the item where its own cell is empty."""
    any_times: bool = False
    """Whether times may be dates, timestamps and fractions too; else they are whole numbers."""
    times_per_second: int = 1
    """In what whole numbers count, such as 1000 where they are milliseconds."""

    def at(self, name: str) -> int:
        """Where a column is."""
        return self.columns.index(name)


def text_rows(
    file: StoredFile, layout: TextLayout, *, which: Which = Which.ALL, repeats: bool = False
) -> Rows:
    """The rows of a text file.

    Args:
        file: the file.
        layout: of it.
        which: which of them are ratings.
        repeats: whether a pair may occur several times.
    """
    return rows_of_records(
        lambda bench: text_table(bench.path(file), layout),
        partial(_records, file, layout),
        partial(_fault, layout=layout),
        what=f"{file.label} cannot be read as delimited text",
        which=which,
        repeats=repeats,
    )


def text_table(paths: str, layout: TextLayout) -> Table:
    """What duckdb reads of files of one layout.

    Args:
        paths: a literal of SQL.
        layout: of all of them.
    """
    columns = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(len(layout.columns)))
    mark = "'\"'" if layout.quoted else "''"
    source = (
        f"read_csv({paths}, auto_detect = false, header = {str(layout.header).lower()}, "
        f"delim = {quoted(layout.delimiter)}, quote = {mark}, escape = {mark}, columns = {{{columns}}}, "
        f"null_padding = false, strict_mode = true, max_line_size = {_LONGEST_LINE})"
    )
    mapping = layout.mapping
    user, item, rating = (f"c{layout.at(name)}" for name in (mapping.user, mapping.item, mapping.rating))
    if layout.item_otherwise is not None:
        item = f"coalesce({item}, c{layout.at(layout.item_otherwise)})"
    found = {"user_id": _id("user id", user, layout), "item_id": _id("item id", item, layout)}
    value = f"try_cast(trim({rating}) AS FLOAT)"  # of a column alone duckdb would make the file's type, and refuse
    found["rating"] = Column(name="rating", cell=rating, value=value, wrong="is not a number")
    if mapping.time is not None:
        found["given"] = _time(mapping.time, f"c{layout.at(mapping.time)}", layout)
    return Table(source=source, columns=found)


def _id(name: str, cell: str, layout: TextLayout) -> Column:
    if not layout.whole_number_ids:
        return Column(name=name, cell=cell, value=cell)
    value = f"CASE WHEN regexp_full_match({cell}, '0|[1-9][0-9]*') THEN try_cast({cell} AS INTEGER) END"
    return Column(name=name, cell=cell, value=value, wrong=f"is not a whole number up to {LARGEST_NUMBER}")


def _time(name: str, cell: str, layout: TextLayout) -> Column:
    whole = f"CASE WHEN regexp_full_match({cell}, ' *-?[0-9]+ *') THEN try_cast({cell} AS BIGINT) END"
    if layout.any_times:
        value = f"coalesce({whole}, {time_of(cell)})"
        return Column(name=name, cell=cell, value=value, wrong="is neither a number nor a date")
    value = whole if layout.times_per_second == 1 else f"({whole}) // {layout.times_per_second}"
    return Column(name=name, cell=cell, value=value, wrong="is not a whole number")


def time_of(cell: str) -> str:
    """SQL for the seconds of a text that is a number, or a date or timestamp of ISO 8601; NULL of any other."""
    number = f"try_cast({cell} AS DOUBLE)"
    return (
        f"coalesce(CASE WHEN abs({number}) < 4e18 THEN floor({number})::BIGINT END, "
        f"floor(epoch(try_cast({cell} AS TIMESTAMPTZ)))::BIGINT)"
    )


def first_line(file: StoredFile) -> str:
    """The first line without its line end and byte-order mark.

    Raises:
        InputError: the file is empty.
    """
    with file.open() as stream:
        line = stream.readline(1 << 16)
    if not line.strip():
        raise InputError(f"{file.label} is empty or starts with an empty line; give a file with ratings.")
    return line.decode("utf-8-sig", errors="replace").rstrip("\r\n")


def header(file: StoredFile, delimiter: str) -> list[str]:
    """The cells of the first line: the names of the columns.

    Raises:
        InputError: the file is empty, or no text that is cut by that delimiter.
    """
    cells = cells_of(first_line(file), delimiter)
    if not cells:
        raise InputError(f"{file.label}, line 1 is no line of a table; give a file with a header line.")
    return cells


def cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of one line, which may be quoted; none of a line that is no table's."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def by_fields(*names: str) -> Callable[[Looks], bool]:
    """Recognise a table with commas by names of its columns."""
    return lambda looks: set(names) <= set(cells_of(looks.line, ","))


def _records(file: StoredFile, layout: TextLayout) -> Iterator[tuple[str, list[str]]]:
    """The data records with the line each ends on; empty lines are skipped, as duckdb does."""
    with file.open() as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        if layout.delimiter == _DOUBLE_COLON:
            lines = enumerate((line.rstrip("\r\n") for line in text), start=1)
            records = ((number, line.split(_DOUBLE_COLON)) for number, line in lines if line)
        else:
            reader = csv.reader(
                text,
                delimiter=layout.delimiter,
                quoting=csv.QUOTE_MINIMAL if layout.quoted else csv.QUOTE_NONE,
            )
            records = ((reader.line_num, cells) for cells in reader if cells)
        try:
            for number, cells in islice(records, 1 if layout.header else 0, None):
                yield f"{file.label}, line {number}", cells
        except csv.Error as error:
            raise InputError(
                f"{file.label} cannot be read as delimited text: {error}; correct it."
            ) from error


def _fault(cells: list[str], layout: TextLayout) -> str | None:
    """Why a record is no row, or None."""
    if len(cells) != len(layout.columns):
        return f"{len(cells)} columns where {len(layout.columns)} are expected"
    return "it is not UTF-8 text" if any("\ufffd" in cell for cell in cells) else None
