"""The files in which MovieLens lists its films: names and layouts."""

from dataclasses import dataclass
from typing import Final

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.server.catalogue.titles import TitleLayout


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
