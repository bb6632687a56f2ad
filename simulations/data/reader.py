"""What a format of rating files says of itself: its reader."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.server.catalogue.titles import TitlesFile
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.sorting import Rows


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
