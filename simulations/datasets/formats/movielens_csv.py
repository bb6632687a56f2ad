"""MovieLens 20M, later ones and "latest": ``ratings.csv`` (userId,movieId,rating) and ``movies.csv``."""

from dataclasses import replace

from fedboard.server.catalogue.movielens import COLUMNS_20M, OF_20M
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, require_columns
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import TextLayout, cells_of, header, read_text


def _recognises(looks: Looks) -> bool:
    """By the names of the columns."""
    return {COLUMNS_20M.user, COLUMNS_20M.item, COLUMNS_20M.rating} <= set(cells_of(looks.line, ","))


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read ``ratings.csv``.

    Raises:
        InputError: a column is missing, or see ``read_text``.
    """
    names = header(file, ",")
    wanted = replace(COLUMNS_20M, time="timestamp") if asked.times else COLUMNS_20M
    require_columns(f"{file.label}, line 1", names, wanted)
    layout = TextLayout(
        delimiter=",",
        columns=tuple(names),
        mapping=wanted,
        header=True,
        whole_number_ids=True,
        quoted=True,
    )
    return read_text(file, layout)


READERS = tuple(
    Reader(
        name=name,
        what=what,
        given_as="the folder, the `.zip`, or `ratings.csv`",
        read=_read,
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
