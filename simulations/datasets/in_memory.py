"""Ratings that are in memory already: three columns, or a data frame of pandas, polars or anything like it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.simulations.datasets.loading import ratings_of_rows
from fedboard.simulations.datasets.ratings import Ratings
from fedboard.simulations.datasets.rules import check_range
from fedboard.simulations.datasets.sorting import Listed, Rows
from fedboard.simulations.datasets.splits.times import times_of_numbers
from fedboard.simulations.datasets.workbench import Workbench


def ratings_of_table(table: Any, *, columns: ColumnMapping | None = None, **more: Any) -> Ratings:
    """Ratings from a data frame of pandas, polars or pyarrow: named columns, each of them ``table[name]``.

    Args:
        table: private.
        columns: names of its columns; by default user, item and rating, and none that says when.
        more: as for ``ratings_of_columns``.

    Raises:
        InputError: a column is missing, or as for ``ratings_of_columns``.
    """
    mapping = columns if columns is not None else ColumnMapping()
    timed = () if mapping.time is None else (mapping.time,)
    names = (mapping.user, mapping.item, mapping.rating, *timed)
    found = [str(name) for name in getattr(table, "column_names", table.columns)]  # as pyarrow calls them
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(
            f"the table has no column {missing[0]!r}, only {', '.join(found)}; name the right ones with "
            "columns={'user': ..., 'item': ..., 'rating': ...}"
        )
    users, items, values, *times = (np.asarray(table[name]) for name in names)
    return ratings_of_columns(users, items, values, *times, **more)


def ratings_of_columns(
    users: ArrayLike,
    items: ArrayLike,
    values: ArrayLike,
    times: ArrayLike | None = None,
    *,
    rating_range: tuple[float, float] | None,
    titles: Mapping[str, str] | None = None,
    catalogue: Literal["rated", "listed"] = "rated",
    name: str = "memory",
) -> Ratings:
    """Ratings from three or four columns of one length.

    Args:
        users: ids, whole numbers or texts, shape (n_rows,). Private.
        items: ids, likewise. Private.
        values: ratings, shape (n_rows,). Private.
        times: when each was given, whole numbers or ``datetime64``, shape (n_rows,); None: not known. Private.
        rating_range: lowest and highest rating of the scale, inclusive. Public knowledge, not read off the data.
        titles: item id to title. Public.
        catalogue: as for ``load_ratings``; ``listed`` takes the items of ``titles``.
        name: short, for reports. Public.

    Returns:
        The ratings, sorted by user and item. Private, save what ``Ratings`` marks as public.

    Raises:
        InputError: columns of different lengths, no rows, ids or ratings that are none, or a pair twice.
    """
    if rating_range is None:
        raise InputError(
            "ratings in memory need their range: give rating_range=(1, 5), say, as public knowledge about the scale"
        )
    scale = check_range(rating_range, "rating_range")
    if catalogue == "listed" and titles is None:
        raise InputError("catalogue 'listed' needs titles: the items that there are")
    timed = () if times is None else (times,)
    columns = [np.asarray(column) for column in (users, items, values, *timed)]
    if any(column.ndim != 1 or column.size != columns[0].size or column.size == 0 for column in columns):
        raise InputError(
            "users, items, ratings and times must be columns of one length, with at least one row"
        )
    try:
        rated = columns[2].astype(np.float32)
    except (TypeError, ValueError):
        raise InputError("the column of ratings must be numbers") from None
    when = None if times is None else times_of_numbers(columns[3])
    if times is not None and when is None:
        raise InputError("the column of times must be numbers or datetime64, none of them missing")
    found: dict[str, NDArray[Any]] = {
        "user_id": _ids(columns[0], "users"),
        "item_id": _ids(columns[1], "items"),
        "rating": rated,
        **({} if when is None else {"given": when}),
    }
    listed = None
    if titles is not None:
        listed = Listed(
            titles={str(key): str(title) for key, title in titles.items()}, rated_only=catalogue == "rated"
        )
    return ratings_of_rows(_rows(found), name=name, label="the table", scale=scale, listed=listed)


def _rows(columns: dict[str, NDArray[Any]]) -> Rows:
    return Rows(
        select=partial(_select, columns=columns),
        locate=lambda row: f"row {row}",
        explain=lambda reason, row: f"row {row}: an id is empty, or no text; fill it in or remove the row.",
    )


def _select(bench: Workbench, columns: dict[str, NDArray[Any]]) -> str:
    import pyarrow as pa

    return f"SELECT * FROM {bench.register(pa.table({name: pa.array(column) for name, column in columns.items()}))}"


def _ids(column: NDArray[Any], what: str) -> NDArray[Any]:
    if np.issubdtype(column.dtype, np.integer):
        return column.astype(np.int64, copy=False)
    if column.dtype.kind not in "OUT" or not all(isinstance(one, str | int) for one in column.tolist()):
        raise InputError(f"the ids of {what} must be whole numbers or texts, got {column.dtype}")
    return column.astype(np.str_)
