"""MovieLens 1M and 10M: ``ratings.dat`` (``user::item::rating::time``) and ``movies.dat``.

The two look alike and differ in their scale: 1M has whole stars from 1 to 5, 10M half stars from 0.5 to 5.
Which one it is, is told from public things only: names of files and folders, and the catalogue.
"""

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.movielens import OF_1M
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.simulations.datasets.columns import RawColumns
from fedboard.simulations.datasets.formats.text import TextLayout, read_text

FORMAT_1M, FORMAT_10M = "movielens-1m", "movielens-10m"
RATINGS_FILE = "ratings.dat"
RATING_RANGES = {FORMAT_1M: (1.0, 5.0), FORMAT_10M: (0.5, 5.0)}
LARGEST_ITEM_ID_1M = 3952
_LAYOUT = TextLayout(
    delimiter="::",
    columns=("user", "item", "rating", "time"),
    mapping=ColumnMapping(),
    header=False,
    whole_number_ids=True,
    quoted=False,
)


def recognises(line: str) -> bool:
    """Whether a first line looks like one of these formats."""
    return line.count("::") == len(_LAYOUT.columns) - 1


def which(file: StoredFile, place: Place, titles: dict[str, str] | None) -> str:
    """Tell 1M from 10M by names and catalogue, never by the ratings.

    Raises:
        InputError: nothing public tells which it is.
    """
    name = f"{place.path.resolve().name}/{file.member or ''}".lower()
    if place.find("users.dat") is not None or "ml-1m" in name:
        return FORMAT_1M
    if "ml-10m" in name:
        return FORMAT_10M
    if titles:
        largest = max((int(item) for item in titles if item.isdecimal()), default=0)
        return FORMAT_1M if largest <= LARGEST_ITEM_ID_1M else FORMAT_10M
    raise InputError(
        f"{file.label} may be MovieLens 1M (ratings 1 to 5) or 10M (0.5 to 5); "
        f"name the format {FORMAT_1M} or {FORMAT_10M}, or put {OF_1M.name} beside it."
    )


def read(file: StoredFile) -> RawColumns:
    """Read ``ratings.dat``."""
    return read_text(file, _LAYOUT)


__all__ = [
    "FORMAT_1M",
    "FORMAT_10M",
    "RATINGS_FILE",
    "RATING_RANGES",
    "read",
    "recognises",
    "which",
]
