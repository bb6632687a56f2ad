"""MovieLens 1M and 10M: ``ratings.dat`` (``user::item::rating::time``) and ``movies.dat``.

The two look alike and differ in their scale: 1M has whole stars from 1 to 5, 10M half stars from 0.5 to 5.
Which one it is, is told from public things only: names of files and folders, and the catalogue.
"""

from functools import partial

from fedboard.common.errors import InputError
from fedboard.server.catalogue.movielens import OF_1M
from fedboard.server.catalogue.titles import read_titles
from fedboard.simulations.datasets.formats.movielens.headerless import COLUMNS, Headerless
from fedboard.simulations.datasets.formats.reader import Looks, Reader

_1M, _10M = "movielens-1m", "movielens-10m"
_RATING_RANGES = {_1M: (1.0, 5.0), _10M: (0.5, 5.0)}
_LARGEST_ITEM_ID_1M = 3952
_LINES = Headerless("::")


def _recognises(looks: Looks) -> bool:
    """By a first line of one of the two."""
    return looks.line.count("::") == len(COLUMNS) - 1


def _is_it(looks: Looks, name: str) -> bool:
    return _which(looks) == name


def _which(looks: Looks) -> str:
    """Tell 1M from 10M by names and catalogue, never by the ratings.

    Raises:
        InputError: nothing public tells which it is.
    """
    file, place = looks.file, looks.place
    name = f"{place.path.resolve().name}/{file.member or ''}".lower()
    if place.find("users.dat") is not None or "ml-1m" in name:
        return _1M
    if "ml-10m" in name:
        return _10M
    titles, beside = looks.titles, place.find(OF_1M.name)
    if titles is None and beside is not None:
        titles = read_titles(beside, OF_1M.layout)
    if titles:
        largest = max((int(item) for item in titles if item.isdecimal()), default=0)
        return _1M if largest <= _LARGEST_ITEM_ID_1M else _10M
    raise InputError(
        f"{file.label} may be MovieLens 1M (ratings 1 to 5) or 10M (0.5 to 5); "
        f"name the format {_1M} or {_10M}, or put {OF_1M.name} beside it."
    )


READERS = tuple(
    Reader(
        name=name,
        what=what,
        given_as="the folder, the `.zip`, or `ratings.dat`",
        read=_LINES.read,
        blocks=_LINES.blocks,
        recognises=_recognises,
        told_apart=partial(_is_it, name=name),
        rating_range=_RATING_RANGES[name],
        times=True,
        file_name="ratings.dat",
        titles=OF_1M,
        needs_pyarrow=True,
    )
    for name, what in ((_1M, "MovieLens 1M"), (_10M, "MovieLens 10M"))
)
