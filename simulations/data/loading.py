"""One door to all formats.

Ratings that are in memory already: three columns, or a data frame of pandas, polars or anything like it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.server.catalogue.titles import layout_of, read_titles
from fedboard.simulations.data.named import SYNTHETIC
from fedboard.simulations.data.ratings import Ratings, check_range
from fedboard.simulations.data.reader import Asked, Rows, Table, plain_columns
from fedboard.simulations.data.readers import DataSource, find_source
from fedboard.simulations.data.sorting import Listed, SortedRows
from fedboard.simulations.data.splits.times import times_of_numbers
from fedboard.simulations.data.synthetic.people import is_people, open_people, ratings_of_people
from fedboard.simulations.data.synthetic.ratings import SyntheticConfig, synthetic_ratings
from fedboard.simulations.data.workbench import Workbench, workbench

_log = logging.getLogger(__name__)

NO_TIMES = "made-up ratings have no times, so they cannot be split by them: name data that say when"


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What is known of ratings before any is read. Public."""

    found: DataSource
    columns: ColumnMapping
    listed: dict[str, str] | None
    """Item id to title, where there is a list."""
    scale: tuple[float, float]
    catalogue: Literal["rated", "listed"]

    @property
    def items_listed(self) -> bool:
        """Whether the list of items stands apart from the ratings."""
        return self.listed is not None and self.catalogue == "listed"

    def read(self, *, times: bool) -> Rows | Ratings:
        """What the reader gives, see ``Reader.read``."""
        found = self.found
        asked = Asked(
            columns=self.columns,
            rating_range=self.scale,
            titles=self.listed,
            files=found.files or (found.file,),
            times=times,
        )
        return found.reader.read(found.file, asked)

    def sorted(self, bench: Workbench, rows: Rows) -> SortedRows:
        """The rows that were read, checked and numbered."""
        listed = None if self.listed is None else Listed(titles=self.listed, rated_only=not self.items_listed)
        return SortedRows(bench, rows, label=self.found.file.label, scale=self.scale, listed=listed)


def load_ratings(
    source: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    columns: ColumnMapping | None = None,
    rating_range: tuple[float, float] | None = None,
    titles: str | Path | None = None,
    catalogue: Literal["rated", "listed"] = "rated",
    times: bool = False,
    synthetic: SyntheticConfig | None = None,
) -> Ratings:
    """Load ratings from a file, a folder or a zip archive, or make the synthetic set.

    Args:
        source: path, or the word ``synthetic``.
        format: one of ``FORMATS``; None to recognise it by names and first lines.
        columns: column names of a CSV, TSV or Parquet file; by default user, item and rating.
        rating_range: lowest and highest rating of the scale, inclusive. Public knowledge, not read off the
            data. Known for MovieLens and npz, needed for CSV, TSV and Parquet.
        titles: file that lists items and titles; MovieLens data bring their own. An item that it does not
            list is an error.
        catalogue: ``rated`` numbers the items that somebody rated, as is usual in publications: the numbering
            itself then tells that each was rated at least once. ``listed`` numbers every item of the file of
            titles, which tells nothing.
        times: whether to read when ratings were given; a table's column for it is named in ``columns``.
        synthetic: options of the synthetic set.

    Returns:
        The ratings, sorted by user and item. Private, save what ``Ratings`` marks as public.

    Raises:
        InputError: anything that cannot be used as it is, naming file, line and remedy.
    """
    if str(source) == SYNTHETIC:
        if times:
            raise InputError(NO_TIMES)
        return synthetic_ratings(synthetic if synthetic is not None else SyntheticConfig())
    if is_people(str(source)):
        if times:
            raise InputError(NO_TIMES)
        return ratings_of_people(open_people(str(source)))
    looked = look_at(
        source,
        format=format,
        columns=columns,
        rating_range=rating_range,
        titles=titles,
        catalogue=catalogue,
        times=times,
    )
    found = looked.found
    if found.reader.name == "npz" and rating_range is None:
        _log.warning(
            "%s: ratings are taken to be from 1 to 5; --rating-range says otherwise", found.file.label
        )
    read = looked.read(times=times)
    if isinstance(read, Ratings):
        return read
    with workbench() as bench:
        ratings = looked.sorted(bench, read).ratings(name=found.name)
    return replace(ratings, presence=found.reader.presence)


def look_at(
    source: str | Path,
    *,
    format: str | None,  # noqa: A002
    columns: ColumnMapping | None,
    rating_range: tuple[float, float] | None,
    titles: str | Path | None,
    catalogue: Literal["rated", "listed"],
    times: bool = False,
) -> Looked:
    """See that ratings can be read, by no more of them than a header: a mistake is found before many runs begin.

    Arguments and errors as of ``load_ratings``, but for the synthetic set, which is no file.
    """
    mapping = columns if columns is not None else ColumnMapping()
    listed = None if titles is None else _named_titles(Path(titles), mapping)
    found = find_source(Path(source), format, mapped=columns is not None, titles=listed)
    if found.reader.of_file is not None:
        found = replace(found, reader=found.reader.of_file(found.file))
        own = rating_range is None or tuple(rating_range) == found.reader.rating_range
        if not own or titles is not None or columns is not None:
            raise InputError(
                f"{found.file.label} says itself which columns, rating range and titles there are; leave out "
                "--columns, --rating-range and --titles (in a configuration data.*), or make it again with them."
            )
    reader = found.reader
    listed = _titles_beside(found) if listed is None else listed
    if reader.columns is not None:
        otherwise = replace(mapping, user="user_id", item="item_id")
        try:
            reader.columns(found.file, mapping)
        except InputError as usual:
            if not reader.generic or columns is not None:
                raise
            try:
                reader.columns(found.file, otherwise)
            except InputError:  # neither names are there
                raise usual from None
            mapping = otherwise
    if times:
        _require_times(found, mapping)
    if rating_range is None and reader.rating_range is None:
        raise InputError(
            f"{found.file.label}: the rating range of this format is not known; declare it, for example "
            "--rating-range 1,5 (data.rating_range in a configuration), as public knowledge about the scale, not "
            "read off the data."
        )
    scale = check_range(reader.rating_range if rating_range is None else rating_range, found.file.label)
    if catalogue == "listed" and listed is None and not reader.lists_items:
        raise InputError(f"{found.file.label}: there is no list of items; give a file of titles.")
    return Looked(found=found, columns=mapping, listed=listed, scale=scale, catalogue=catalogue)


def _require_times(found: DataSource, mapping: ColumnMapping) -> None:
    """See that a format says when ratings were given.

    Raises:
        InputError: it does not, or nobody said which column does.
    """
    reader = found.reader
    if not reader.times:
        raise InputError(
            f"{found.file.label}: files in format {reader.name} do not say when anything was rated, so they cannot "
            "be split by time; leave out split.test_from and split.leave_last."
        )
    if reader.generic and mapping.time is None:
        raise InputError(
            f"{found.file.label}: which column says when? Name it: --columns time=NAME (data.columns in a "
            "configuration, columns in Python)."
        )


def features_beside(source: str | Path, format: str | None = None) -> StoredFile | None:  # noqa: A002
    """The file that lists the items with their genres, where the format of the ratings brings one.

    Args:
        source: as for ``load_ratings``.
        format: likewise.

    Raises:
        InputError: nothing there, or nothing recognised.
    """
    found = find_source(Path(source), format, mapped=False)
    brought = found.reader.titles
    return None if brought is None or not brought.features else brought.beside(found.place)


def _named_titles(path: Path, mapping: ColumnMapping) -> dict[str, str]:
    """Item id to title, of a file that somebody names."""
    file = StoredFile(path=path)
    return read_titles(file, layout_of(file, mapping))


def _titles_beside(found: DataSource) -> dict[str, str] | None:
    """Item id to title, of the file that the format brings."""
    if found.reader.titles_of is not None:
        return found.reader.titles_of(found.file, found.place)
    brought = found.reader.titles
    beside = None if brought is None else brought.beside(found.place)
    return None if brought is None or beside is None else read_titles(beside, brought.layout)


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
    with workbench() as bench:
        return SortedRows(bench, _rows(found), label="the table", scale=scale, listed=listed).ratings(
            name=name
        )


def _rows(columns: dict[str, NDArray[Any]]) -> Rows:
    def read(bench: Workbench) -> Table:
        import pyarrow as pa

        given = pa.table({name: pa.array(column) for name, column in columns.items()})
        return Table(source=bench.register(given), columns=plain_columns(timed="given" in columns))

    return Rows(
        read=read,
        locate=lambda row: f"row {row}",
        broken=lambda reason: f"the table cannot be read ({reason}); give whole numbers or texts as ids.",
    )


def _ids(column: NDArray[Any], what: str) -> NDArray[Any]:
    if np.issubdtype(column.dtype, np.integer):
        return column.astype(np.int64, copy=False)
    if column.dtype.kind not in "OUT" or not all(isinstance(one, str | int) for one in column.tolist()):
        raise InputError(f"the ids of {what} must be whole numbers or texts, got {column.dtype}")
    return column.astype(np.str_)
