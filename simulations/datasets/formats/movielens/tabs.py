"""MovieLens 100K: ``u.data`` (user, item, rating, time by tabs) and ``u.item`` (by ``|``, Latin-1)."""

import re

from fedboard.server.catalogue.movielens import OF_100K
from fedboard.simulations.datasets.formats.delimited import ENDINGS
from fedboard.simulations.datasets.formats.movielens.headerless import Headerless
from fedboard.simulations.datasets.formats.reader import Looks, Reader

_FIRST_LINE = re.compile(r"\d+\t\d+\t\d+\t\d+")
_LINES = Headerless("\t")


def _recognises(looks: Looks) -> bool:
    """By its first line; a table with a header has an ending that says so."""
    return _FIRST_LINE.fullmatch(looks.line) is not None and looks.file.suffix not in ENDINGS


READERS = (
    Reader(
        name="movielens-100k",
        what="MovieLens 100K",
        given_as="the folder, the `.zip`, or `u.data`",
        read=_LINES.read,
        blocks=_LINES.blocks,
        recognises=_recognises,
        rating_range=(1.0, 5.0),
        times=True,
        file_name="u.data",
        titles=OF_100K,
        needs_pyarrow=True,
    ),
)
