"""Between a CSV file and the rating store, in both directions."""

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from fedboard.client.ratings.own_file import parse_rating, rating_rows, shielded
from fedboard.client.ratings.store import OwnRating
from fedboard.client.recommending.catalogue_search import ItemIndex, title_of
from fedboard.client.recommending.recommend import rating_range_of
from fedboard.common.board import Board
from fedboard.common.errors import InputError

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
    index = None if board is None else ItemIndex(board.catalogue)
    rating_range = _ANY if board is None else rating_range_of(board)
    found: dict[str, OwnRating] = {}
    needed = ("item",) if rating_range is None else ("item", "rating")
    known = () if board is None else board.catalogue.item_ids
    rows = rating_rows(path, needed=needed, optional=("timestamp",), columns=columns or {}, known=known)
    for place, row in rows:
        item = _item_id(row["item"], board, index, place)
        if item in found:
            raise InputError(f"{place}: item {row['item']!r} is listed twice; keep one line per item")
        rating = 1.0 if rating_range is None else parse_rating(row["rating"], rating_range, place)
        found[item] = _own(item, rating, row["timestamp"], place)
    if not found:
        raise InputError(f"{path}: no ratings in it; one line per item is needed, below the header")
    return tuple(found.values())


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


def _item_id(text: str, board: Board | None, index: ItemIndex | None, place: str) -> str:
    if board is None or index is None:
        return text
    try:
        return board.catalogue.item_ids[index.find(text)]
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _own(item: str, rating: float, timestamp: str, place: str) -> OwnRating:
    if timestamp and not (timestamp.isdecimal() and len(timestamp) < 20 and int(timestamp) < 1 << 63):
        raise InputError(
            f"{place}: a timestamp must be a whole number of seconds since 1970, got {timestamp!r}"
        )
    try:
        return OwnRating(item=item, rating=rating, rated_at=int(timestamp) if timestamp else None)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
