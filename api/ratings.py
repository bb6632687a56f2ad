"""Ratings from wherever they are: a file, a data frame, three arrays, the made-up set."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from numpy.typing import ArrayLike

from fedboard.common.algorithms.shared.ratings_config import checked_options
from fedboard.common.errors import InputError
from fedboard.simulations.data import ColumnMapping, Ratings, find_data
from fedboard.simulations.data import load_ratings as load_file
from fedboard.simulations.data.loading import ratings_of_columns, ratings_of_table


@runtime_checkable
class Table(Protocol):
    """A data frame, of pandas or polars or anything else with named columns."""

    @property
    def columns(self) -> Any:
        """Their names."""
        ...

    def __getitem__(self, name: Any, /) -> Any:
        """One of them."""
        ...


InMemory: TypeAlias = (
    Ratings
    | Table
    | tuple[ArrayLike, ArrayLike, ArrayLike]
    | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]
)
"""Ratings that are loaded; a data frame; or users, items, ratings and, if known, times as arrays. Private."""


def load_ratings(
    source: str | Path | InMemory,
    *,
    rating_range: tuple[float, float] | None = None,
    columns: Mapping[str, str] | None = None,
    data_format: str | None = None,
    titles: str | Path | Mapping[str, str] | None = None,
    catalogue: Literal["rated", "listed"] = "rated",
    times: bool = False,
) -> Ratings:
    """Load ratings, checked, numbered and sorted.

    Args:
        source: a file, folder or zip archive (MovieLens, CSV, TSV, Parquet, npz), ``"synthetic"``, a data frame, or
            users, items, ratings and perhaps times as arrays.
        rating_range: lowest and highest rating of the scale, inclusive; public, not read off the data. Known for
            MovieLens.
        columns: names of the columns, keys ``user``, ``item`` and ``rating``; by default they are called so. With
            the key ``time`` the column that says when; of a data frame it is then read.
        data_format: reader by name, where it is not recognised.
        titles: a file with item titles; for ratings in memory a mapping from item id to title.
        catalogue: ``rated`` numbers the items that somebody rated; ``listed`` all that ``titles`` lists.
        times: whether to read from a file when ratings were given, to split by it.

    Returns:
        The ratings. Private, save what ``Ratings`` marks as public.

    Raises:
        InputError: anything that cannot be used as it is, naming place and remedy.
    """
    mapping = None if columns is None else checked_options(dict(columns), ColumnMapping, "columns")
    if isinstance(source, str | Path):
        if isinstance(titles, Mapping):
            raise InputError("titles of ratings in a file are in a file too; give its path")
        return load_file(
            find_data(str(source)),
            format=data_format,
            columns=mapping,
            rating_range=rating_range,
            titles=titles,
            catalogue=catalogue,
            times=times,
        )
    if isinstance(source, Ratings):
        return source
    if isinstance(titles, str | Path):
        raise InputError("titles of ratings in memory are a mapping from item id to title, not a file")
    if isinstance(source, tuple) and len(source) in (3, 4):
        return ratings_of_columns(*source, rating_range=rating_range, titles=titles, catalogue=catalogue)
    if isinstance(source, Table):
        return ratings_of_table(
            source, columns=mapping, rating_range=rating_range, titles=titles, catalogue=catalogue
        )
    raise InputError(
        "ratings must be a path, a data frame with columns user, item and rating, or three arrays "
        f"(users, items, ratings), got {type(source).__name__}"
    )


__all__ = ["InMemory", "Ratings", "Table", "load_ratings"]
