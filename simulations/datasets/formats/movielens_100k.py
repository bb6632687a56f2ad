"""MovieLens 100K: ``u.data`` (user, item, rating, time by tabs) and ``u.item`` (by ``|``, Latin-1)."""

import re

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns
from fedboard.simulations.datasets.formats.text import TextLayout, read_text

FORMAT = "movielens-100k"
RATINGS_FILE = "u.data"
RATING_RANGE = (1.0, 5.0)
_FIRST_LINE = re.compile(r"\d+\t\d+\t\d+\t\d+")
_LAYOUT = TextLayout(
    delimiter="\t",
    columns=("user", "item", "rating", "time"),
    mapping=ColumnMapping(),
    header=False,
    whole_number_ids=True,
    quoted=False,
)


def recognises(line: str) -> bool:
    """Whether a first line looks like this format."""
    return _FIRST_LINE.fullmatch(line) is not None


def read(file: StoredFile) -> RawColumns:
    """Read ``u.data`` or one of its parts such as ``u1.base``."""
    return read_text(file, _LAYOUT)


__all__ = ["FORMAT", "RATINGS_FILE", "RATING_RANGE", "read", "recognises"]
