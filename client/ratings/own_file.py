"""A person's own ratings in a small CSV file: read for a board, or into her store and out of it."""

import csv
import math
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from fedboard.client.ratings.store import OwnRating
from fedboard.client.recommending.catalogue_search import ItemIndex, title_of
from fedboard.client.recommending.recommend import rating_range_of
from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import try_columns
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.files import open_file

_Item = TypeVar("_Item", bound=Hashable)
_SHIELDED = re.compile("'+[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")
"""A cell that spreadsheets would run as a formula, with the quote before it that ``importing`` writes."""
_AS_CALLED: Mapping[str, str] = {}
"""Columns are called by their roles."""


def read_own_ratings(
    path: Path,
    catalogue: Catalogue,
    *,
    rating_range: tuple[float, float] | None,
    columns: Mapping[str, str] = _AS_CALLED,
    skipped: list[str] | None = None,
) -> Cohort:
    """Read a CSV file with the header ``item,rating`` (or only ``item``, for implicit feedback).

    Args:
        path: the file; further columns are ignored.
        catalogue: of the board; items are named by id or by title.
        rating_range: public range of ratings, inclusive; None for implicit feedback, where being listed is
            the rating.
        columns: what the file calls ``item`` and ``rating``, where it calls them otherwise.
        skipped: gets a sentence for each item that the catalogue lacks; None: such an item is an error.

    Returns:
        A cohort of one. Private: it stays on the device.

    Raises:
        InputError: a line that cannot be used as it is; names file, line and remedy. It quotes the file, so
            it is for the person at the keyboard only.
    """
    needed = ("item",) if rating_range is None else ("item", "rating")
    rows = rating_rows(path, needed=needed, columns=columns, known=catalogue.item_ids)
    own = own_ratings(
        ((place, row["item"], row.get("rating", "")) for place, row in rows),
        catalogue,
        rating_range=rating_range,
        skipped=skipped,
    )
    if own.n_ratings == 0 and skipped:
        raise InputError(f"none of its {len(skipped)} ratings can be used with this board: {skipped[0]}")
    if own.n_ratings == 0:
        raise InputError(f"{path}: no ratings in it; one line per item is needed, below the header")
    return own


def own_ratings(
    rows: Iterable[tuple[str, str, object]],
    catalogue: Catalogue,
    *,
    rating_range: tuple[float, float] | None,
    skipped: list[str] | None = None,
) -> Cohort:
    """A person's ratings by what she calls the items.

    Args:
        rows: of each rating where it stands, for messages; the item's id or title; the rating, a number or its
            text. Private.
        catalogue: of the board.
        rating_range: as for ``read_own_ratings``; where it is None no rating is looked at.
        skipped: as for ``read_own_ratings``.

    Returns:
        A cohort of one, perhaps without ratings. Private: it stays on the device.

    Raises:
        InputError: as for ``read_own_ratings``.
    """
    rated = _checked(rows, ItemIndex(catalogue).find, rating_range, skipped)
    items = sorted(rated)
    return Cohort(
        indptr=np.array([0, len(items)], dtype=np.int64),
        items=np.array(items, dtype=np.int32),
        ratings=np.array([rated[item] for item in items], dtype=np.float32),
        n_items=catalogue.n_items,
    )


def _checked(
    rows: Iterable[tuple[str, str, object]],
    find: Callable[[str], _Item],
    rating_range: tuple[float, float] | None,
    skipped: list[str] | None = None,
) -> dict[_Item, float]:
    """Rating by item, in the order of the rows: each item once, each rating on the range."""
    rated: dict[_Item, float] = {}
    for place, name, rating in rows:
        try:
            item = find(name)
        except InputError as error:
            if skipped is None:
                raise InputError(f"{place}: {error}") from None
            skipped.append(f"{place}: {error}")
            continue
        if item in rated:
            raise InputError(f"{place}: item {name!r} is listed twice; keep one line per item")
        rated[item] = 1.0 if rating_range is None else _parsed(rating, rating_range, place)
    return rated


def rating_rows(
    path: Path,
    *,
    needed: tuple[str, ...],
    optional: tuple[str, ...] = (),
    columns: Mapping[str, str] = _AS_CALLED,
    known: Collection[str] = (),
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Place (file and line) and cells of each row that is not empty.

    Args:
        path: a CSV file with a header.
        needed: names of columns that must be there.
        optional: names of columns whose cells are "" where they are not.
        columns: what the file calls those that it calls otherwise.
        known: ids that stay as they are written, unless the id that an export would have written so is known too.

    Raises:
        InputError: names file, line and remedy.
    """
    try:
        with TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = next(reader, [])
            places = _columns(header, needed, optional, columns, path)
            for cells in reader:
                place = f"{path}, line {reader.line_num}"
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) <= max(places[name] for name in needed):
                    raise InputError(f"{place}: {' and '.join(needed)} are needed, got {','.join(cells)!r}")
                if len(cells) > len(header):
                    raise InputError(
                        f"{place}: {len(cells)} columns where the header has {len(header)}; "
                        "put texts that hold a comma in quotes, and write 4.5 with a point"
                    )
                given = {n: _unshielded(cells[at], known) for n, at in places.items() if at < len(cells)}
                yield place, dict.fromkeys(optional, "") | given
    except OSError as error:
        raise InputError(f"{path}: no ratings can be read there ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save the file as UTF-8 CSV") from error
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not valid CSV ({error})") from error


def shielded(cell: str) -> str:
    """A cell that no spreadsheet runs as a formula: one that would be one gets a quote in front."""
    return f"'{cell}" if _SHIELDED.match(f"'{cell}") else cell


def _unshielded(cell: str, known: Collection[str]) -> str:
    cell = cell.strip()
    return cell[1:] if _SHIELDED.match(cell) and (cell not in known or cell[1:] in known) else cell


def _columns(
    header: list[str],
    needed: tuple[str, ...],
    optional: tuple[str, ...],
    columns: Mapping[str, str],
    path: Path,
) -> dict[str, int]:
    names = [cell.strip().casefold() for cell in header]
    called = {role: columns.get(role, role).strip().casefold() for role in (*needed, *optional)}
    missing = [called[role] for role in needed if called[role] not in names]
    if missing:
        wanted = ",".join(columns.get(role, role) for role in needed)
        guess = try_columns([cell.strip() for cell in header], {role: called[role] for role in needed})
        raise InputError(
            f"{path}, line 1: the header must name the columns {wanted}, got {','.join(header)!r}{guess}"
        )
    return {role: names.index(name) for role, name in called.items() if name in names}


def _parsed(text: object, rating_range: tuple[float, float], place: str) -> float:
    """A rating on a public range."""
    try:
        rating = float(text)  # type: ignore[arg-type]  # whatever is no number is refused here
    except (TypeError, ValueError):
        rating = math.nan
    low, high = rating_range
    if not low <= rating <= high:
        raise InputError(f"{place}: a rating must be a number from {low:g} to {high:g}, got {text!r}")
    return rating


_ANY = (-math.inf, math.inf)
_HEADER = ("item", "rating", "timestamp", "title")


def read_ratings(
    path: Path, *, board: Board | None = None, columns: Mapping[str, str] | None = None
) -> tuple[OwnRating, ...]:
    """Read a CSV file with the header ``item,rating`` and perhaps ``timestamp`` (seconds since 1970).

    Args:
        path: the file; further columns are ignored. Without a column ``rating`` each listed item counts 1.
        board: items are named by id or by title in its catalogue, ratings are on its range; without one
            items are named by id and any finite number is a rating.
        columns: what the file calls ``item``, ``rating`` and ``timestamp``, where it calls them otherwise.

    Returns:
        One entry per line. Private.

    Raises:
        InputError: a line that cannot be used as it is; names file, line and remedy.
    """
    rating_range = _ANY if board is None else rating_range_of(board)
    needed = ("item",) if rating_range is None else ("item", "rating")
    known = () if board is None else board.catalogue.item_ids
    rows = list(rating_rows(path, needed=needed, optional=("timestamp",), columns=columns or {}, known=known))
    listed = ((place, row["item"], row.get("rating", "")) for place, row in rows)
    found = _checked(listed, str if board is None else _id_in(board), rating_range)
    if not found:
        raise InputError(f"{path}: no ratings in it; one line per item is needed, below the header")
    return tuple(
        _own(item, rating, row["timestamp"], place)
        for (item, rating), (place, row) in zip(found.items(), rows, strict=True)
    )


def write_ratings(stream: IO[str], ratings: Iterable[OwnRating], *, board: Board | None = None) -> None:
    """Write a CSV file that ``read_ratings`` reads; with a board, titles are added.

    Guarantee: no item or title is a formula for a spreadsheet; ``read_ratings`` gives items back as they were.
    """
    numbers = {} if board is None else {item: n for n, item in enumerate(board.catalogue.item_ids)}
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_HEADER if board is not None else _HEADER[:3])
    for own in ratings:
        when = "" if own.rated_at is None else own.rated_at
        cells = [shielded(own.item), repr(own.rating).removesuffix(".0"), when]
        if board is not None:
            number = numbers.get(own.item)
            cells.append("" if number is None else shielded(title_of(board.catalogue, number) or ""))
        writer.writerow(cells)


def _id_in(board: Board) -> Callable[[str], str]:
    index = ItemIndex(board.catalogue)
    return lambda name: board.catalogue.item_ids[index.find(name)]


def _own(item: str, rating: float, timestamp: str, place: str) -> OwnRating:
    if timestamp and not (timestamp.isdecimal() and len(timestamp) < 20 and int(timestamp) < 1 << 63):
        raise InputError(
            f"{place}: a timestamp must be a whole number of seconds since 1970, got {timestamp!r}"
        )
    try:
        return OwnRating(item=item, rating=rating, rated_at=int(timestamp) if timestamp else None)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
