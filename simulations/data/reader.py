"""What a format of rating files says of itself, its reader, and the rows that it reads."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import TypeVar

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.server.catalogue.titles import TitlesFile
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.workbench import Workbench

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """What a format is told by: never by more of the ratings than a first line."""

    file: StoredFile
    """The file that was found."""
    place: Place
    """The folder or archive that holds it."""
    head: bytes
    """The file's first bytes."""
    line: str
    """Its first line; empty where it is no text, and where columns were named: then it is a plain table."""
    titles: dict[str, str] | None
    """Item id to title, where somebody named a file of titles."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Asked:
    """What a reader is told besides the file. Public."""

    columns: ColumnMapping
    """How user, item and rating are called in it."""
    rating_range: tuple[float, float]
    """Lowest and highest rating of the scale, inclusive."""
    titles: dict[str, str] | None
    """Item id to title; None where there is no list."""
    files: tuple[StoredFile, ...] = ()
    """All files of the format in the folder or archive that was named, by name; or the one file."""
    times: bool = False
    """Whether times are wanted too; the reader says that it can."""

    @property
    def mapping(self) -> ColumnMapping:
        """The columns to read."""
        return self.columns if self.times else replace(self.columns, time=None)


def by_line(line: str) -> Callable[[Looks], bool]:
    """Recognise a file by its first line, a regular expression for all of it."""
    pattern = re.compile(line)
    return lambda looks: pattern.fullmatch(looks.line) is not None


def by_name(*names: str) -> Callable[[Looks], bool]:
    """Recognise a file by its name, or by its ending, which begins with a dot."""
    return lambda looks: looks.file.base_name in names or looks.file.suffix in names


class Which(Enum):
    """Which rows of a file are ratings."""

    ALL = "all"
    USED = "used"
    """Counts: one above 0 says that somebody used an item, one of 0 is no row."""
    RATED = "rated"
    """Those but 0, which says that somebody has an item and has not rated it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a source: SQL of its cells as text, and of what they say."""

    name: str
    """As messages call a cell, such as ``user id``."""
    cell: str
    value: str
    """NULL where a cell cannot be read."""
    wrong: str = "cannot be read"
    """What is then said of it, such as ``is not a number``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What duckdb reads, in the order of the file. Columns: ``user_id`` and ``item_id`` (VARCHAR, INTEGER or
    BIGINT), ``rating`` (FLOAT) and, if it was asked, ``given`` (BIGINT: seconds since 1970 in UTC, or whatever the
    file counts in).
    """

    source: str
    """SQL for what stands after FROM."""
    columns: dict[str, Column]


def plain_columns(*, timed: bool) -> dict[str, Column]:
    """Columns that have their names and kinds already."""
    names = {"user_id": "user id", "item_id": "item id", "rating": "rating"} | (
        {"given": "time"} if timed else {}
    )
    return {role: Column(name=name, cell=f"{role}::VARCHAR", value=role) for role, name in names.items()}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rows:
    """The rows of a source, and how to speak of one of them. What they hold is private."""

    read: Callable[[Workbench], Table]
    """Says what is to be read. Raises ``InputError``."""
    locate: Callable[[int], str]
    """Names row number ``k`` (from 0) for a message, such as ``ratings.csv, line 17``; may be slow."""
    broken: Callable[[str], str]
    """The message for a source that duckdb refuses, by its reason; may read it again."""
    which: Which = Which.ALL
    repeats: bool = False
    """Whether a pair may occur several times: then the latest rating counts, of several at one time the highest."""


def rows_of_records(
    read: Callable[[Workbench], Table],
    records: Callable[[], Iterable[tuple[str, Record]]],
    fault: Callable[[Record], str | None],
    *,
    what: str,
    which: Which = Which.ALL,
    repeats: bool = False,
) -> Rows:
    """The rows of lines of text, whose places a pass in Python finds, and which of them is none.

    Args:
        read: as of ``Rows``, as the next two.
        records: those that are rows, in the order of ``read``, each after its place, such as ``r.csv, line 3``.
        fault: why one is no row; None: it is.
        what: as in ``r.csv cannot be read as JSON lines``.
        which: which of them are ratings.
        repeats: whether a pair may occur several times.
    """

    def broken(reason: str) -> str:
        found = ((where, fault(record)) for where, record in records())
        wrong = next((f"{where}: {told}" for where, told in found if told is not None), None)
        if wrong is not None:
            return f"{wrong}; correct or remove the line."
        return f"{what} ({' '.join(reason.split())}); correct the file."

    def locate(row: int) -> str:
        return next(islice(records(), row, None))[0]

    return Rows(read=read, locate=locate, broken=broken, which=which, repeats=repeats)


def _always(looks: Looks) -> bool:
    """No other format looks like it."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One format: how it is called, told, and read."""

    name: str
    """Of the format, as ``--format`` takes it."""
    what: str
    """For people, such as ``MovieLens 1M``."""
    given_as: str
    """What to name as the source."""
    read: Callable[[StoredFile, Asked], Rows | Ratings]
    """Its rows, which are then checked against range and titles, numbered and sorted; or, of a format that is
    numbered already, finished ratings. Raises ``InputError``."""
    recognises: Callable[[Looks], bool]
    """Whether a file is of this format; of several that say so, the first on the list reads it."""
    told_apart: Callable[[Looks], bool] = _always
    """Whether it is this one of formats that look alike, by what is public. Raises ``InputError`` where nothing
    tells."""
    rating_range: tuple[float, float] | None = None
    """Lowest and highest rating of the scale; None: whoever loads it must declare them."""
    presence: bool = False
    """Whether a row says only that somebody used an item, see ``Ratings.presence``."""
    file_name: str | None = None
    """How the file is called in a folder or archive of this format, or the files, such as ``mv_*.txt``; None: it is
    named itself."""
    titles: TitlesFile | None = None
    """The file beside it that lists the items."""
    titles_of: Callable[[StoredFile, Place], dict[str, str] | None] | None = None
    """What lists the items, where that is not one file of a fixed name: item id to title, by the file of ratings
    and where it lies. Raises ``InputError``."""
    lists_items: bool = False
    """Whether it lists all items itself."""
    whole: bool = False
    """Whether ``read`` gives finished ratings, in memory."""
    times: bool = False
    """Whether it can say when ratings were given; of a table, where the column is named."""
    generic: bool = False
    """Whether it is any table, whose columns are named by whoever loads it."""
    columns: Callable[[StoredFile, ColumnMapping], None] | None = None
    """See that the columns are there, before anything else is asked of whoever loads it; raises ``InputError``."""
    of_file: "Callable[[StoredFile], Reader] | None" = None
    """The same with what a file says of itself, such as its rating range; raises ``InputError``."""
