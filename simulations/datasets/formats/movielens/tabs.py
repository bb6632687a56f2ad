"""MovieLens 100K: ``u.data`` (user, item, rating, time by tabs) and ``u.item`` (by ``|``, Latin-1)."""

import re

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.movielens import OF_100K
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns
from fedboard.simulations.datasets.formats.blocks import Blocks
from fedboard.simulations.datasets.formats.delimited import ENDINGS
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import TextLayout, read_text, text_blocks

_FIRST_LINE = re.compile(r"\d+\t\d+\t\d+\t\d+")
_LAYOUT = TextLayout(
    delimiter="\t",
    columns=("user", "item", "rating", "time"),
    mapping=ColumnMapping(),
    header=False,
    whole_number_ids=True,
    quoted=False,
)


def _recognises(looks: Looks) -> bool:
    """By its first line; a table with a header has an ending that says so."""
    return _FIRST_LINE.fullmatch(looks.line) is not None and looks.file.suffix not in ENDINGS


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read ``u.data`` or one of its parts such as ``u1.base``."""
    return read_text(file, _LAYOUT.timed(asked.times, "time"))


def _blocks(file: StoredFile, asked: Asked) -> Blocks:
    """The same, a block at a time."""
    return text_blocks(file, _LAYOUT.timed(asked.times, "time"))


READERS = (
    Reader(
        name="movielens-100k",
        what="MovieLens 100K",
        given_as="the folder, the `.zip`, or `u.data`",
        read=_read,
        blocks=_blocks,
        recognises=_recognises,
        rating_range=(1.0, 5.0),
        times=True,
        file_name="u.data",
        titles=OF_100K,
        needs_pyarrow=True,
    ),
)
