"""MovieLens 20M, later ones and "latest": ``ratings.csv`` (userId,movieId,rating) and ``movies.csv``."""

import csv

from fedboard.simulations.datasets.columns import ColumnMapping, RawColumns, require_columns
from fedboard.simulations.datasets.formats.text import TextLayout, first_line, read_text
from fedboard.simulations.datasets.places import StoredFile
from fedboard.simulations.datasets.titles import TitleLayout

FORMAT_20M, FORMAT_LATEST = "movielens-20m", "movielens-latest"
RATINGS_FILE, TITLES_FILE = "ratings.csv", "movies.csv"
RATING_RANGE = (0.5, 5.0)
MAPPING = ColumnMapping(user="userId", item="movieId", rating="rating", title="title")
TITLE_LAYOUT = TitleLayout(delimiter=",", encodings=("utf-8-sig",), mapping=MAPPING)


def recognises(line: str) -> bool:
    """Whether a first line looks like this format."""
    return {MAPPING.user, MAPPING.item, MAPPING.rating} <= set(next(csv.reader([line])))


def read(file: StoredFile) -> RawColumns:
    """Read ``ratings.csv``.

    Raises:
        InputError: a column is missing, or see ``read_text``.
    """
    names = next(csv.reader([first_line(file)]))
    require_columns(f"{file.label}, line 1", names, MAPPING)
    layout = TextLayout(
        delimiter=",",
        columns=tuple(names),
        mapping=MAPPING,
        header=True,
        whole_number_ids=True,
        quoted=True,
    )
    return read_text(file, layout)


__all__ = [
    "FORMAT_20M",
    "FORMAT_LATEST",
    "MAPPING",
    "RATINGS_FILE",
    "RATING_RANGE",
    "TITLES_FILE",
    "TITLE_LAYOUT",
    "read",
    "recognises",
]
