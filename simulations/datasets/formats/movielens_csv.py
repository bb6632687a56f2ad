"""MovieLens 20M, later ones and "latest": ``ratings.csv`` (userId,movieId,rating) and ``movies.csv``."""

import csv

from fedboard.server.catalogue.movielens import COLUMNS_20M
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, require_columns
from fedboard.simulations.datasets.formats.text import TextLayout, first_line, read_text

FORMAT_20M, FORMAT_LATEST = "movielens-20m", "movielens-latest"
RATINGS_FILE = "ratings.csv"
RATING_RANGE = (0.5, 5.0)


def recognises(line: str) -> bool:
    """Whether a first line looks like this format."""
    return {COLUMNS_20M.user, COLUMNS_20M.item, COLUMNS_20M.rating} <= set(next(csv.reader([line])))


def read(file: StoredFile) -> RawColumns:
    """Read ``ratings.csv``.

    Raises:
        InputError: a column is missing, or see ``read_text``.
    """
    names = next(csv.reader([first_line(file)]))
    require_columns(f"{file.label}, line 1", names, COLUMNS_20M)
    layout = TextLayout(
        delimiter=",",
        columns=tuple(names),
        mapping=COLUMNS_20M,
        header=True,
        whole_number_ids=True,
        quoted=True,
    )
    return read_text(file, layout)


__all__ = [
    "FORMAT_20M",
    "FORMAT_LATEST",
    "RATINGS_FILE",
    "RATING_RANGE",
    "read",
    "recognises",
]
