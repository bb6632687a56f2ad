"""MovieLens 20M, later ones and "latest": ``ratings.csv`` (userId,movieId,rating) and ``movies.csv``."""

from dataclasses import replace

from fedboard.server.catalogue.movielens import COLUMNS_20M, OF_20M
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, require_columns
from fedboard.simulations.datasets.formats.blocks import Blocks
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import TextLayout, cells_of, header, read_text, text_blocks


def _recognises(looks: Looks) -> bool:
    """By the names of the columns."""
    return {COLUMNS_20M.user, COLUMNS_20M.item, COLUMNS_20M.rating} <= set(cells_of(looks.line, ","))


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read ``ratings.csv``.

    Raises:
        InputError: a column is missing, or see ``read_text``.
    """
    return read_text(file, _layout(file, asked))


def _blocks(file: StoredFile, asked: Asked) -> Blocks:
    """The same, a block at a time."""
    return text_blocks(file, _layout(file, asked))


def _layout(file: StoredFile, asked: Asked) -> TextLayout:
    """Of a file, by its header.

    Raises:
        InputError: a column is missing.
    """
    names = header(file, ",")
    wanted = replace(COLUMNS_20M, time="timestamp") if asked.times else COLUMNS_20M
    require_columns(f"{file.label}, line 1", names, wanted)
    return TextLayout(
        delimiter=",",
        columns=tuple(names),
        mapping=wanted,
        header=True,
        whole_number_ids=True,
        quoted=True,
    )


READERS = tuple(
    Reader(
        name=name,
        what=what,
        given_as="the folder, the `.zip`, or `ratings.csv`",
        read=_read,
        blocks=_blocks,
        recognises=_recognises,
        rating_range=(0.5, 5.0),
        times=True,
        file_name="ratings.csv",
        titles=OF_20M,
        needs_pyarrow=True,
    )
    for name, what in (
        ("movielens-20m", "MovieLens 20M and later"),
        ("movielens-latest", "MovieLens latest"),
    )
)
