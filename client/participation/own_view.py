"""What one person gets from a board, by ids and titles: where their ratings are (a CSV file, a store, or their
device's), recommendations, reasons and similar items. Nothing leaves this process.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.client.boards.cache import open_board
from fedboard.client.private_files import is_database
from fedboard.client.ratings.own_file import read_own_ratings
from fedboard.client.ratings.store import RatingStore
from fedboard.client.recommending.catalogue_search import ItemIndex
from fedboard.client.recommending.recommend import (
    Explained,
    Neighbour,
    explain,
    nearest_items,
    rating_range_of,
)
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.protection import Protection, protection_of_board

if TYPE_CHECKING:
    from fedboard.client.participation.config import DeviceConfig
    from fedboard.common.boards.witnesses import Witnesses


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnView:
    """A board with the ratings of one person in its catalogue."""

    board: Board
    own: Cohort
    """A cohort of one. Private."""
    left_out: int
    """Ratings of theirs that this board cannot use: not in its catalogue, or not on its range. Private."""


def open_own(
    ratings: Path,
    place: Path | Board | None,
    *,
    columns: Mapping[str, str] | None = None,
    witnesses: "Witnesses | None" = None,
) -> OwnView:
    """Open a person's ratings beside a board.

    Args:
        ratings: a CSV file, a rating store, or a device's configuration (``.toml``).
        place: a board, board file, run directory or cache; a device may leave it out, its own cache is taken.
        columns: what a CSV file calls ``item`` and ``rating``, where it calls them otherwise.
        witnesses: as for ``open_board``, where ``place`` is a path; a device has a policy of its own.

    Raises:
        InputError: one of them cannot be used as it is.
    """
    if ratings.suffix == ".toml":
        config, store = _of_device(ratings)
        return _from_store(store, _board_of(config) if place is None else _opened(place, witnesses))
    if place is None:
        raise InputError("give a board too: a board file, or the directory of a run")
    if ratings.is_dir() or ratings.suffix == ".board":
        raise InputError(f"ratings come first, then the board: fedboard recommend {place} {ratings}")
    board = _opened(place, witnesses)
    if is_database(ratings):
        return _from_store(ratings, board)
    skipped: list[str] = []
    own = read_own_ratings(
        ratings,
        board.catalogue,
        rating_range=rating_range_of(board),
        columns=columns or {},
        skipped=skipped,
    )
    return OwnView(board=board, own=own, left_out=len(skipped))


def _opened(place: Path | Board, witnesses: "Witnesses | None") -> Board:
    return place if isinstance(place, Board) else open_board(place, witnesses=witnesses)


def _board_of(config: "DeviceConfig") -> Board:
    """The newest board of a device's cache, where its noise is such as the device takes."""
    cache = config.board.cache
    if not any(cache.glob("board-*.board")):
        raise InputError(f"{cache}: this device has no board yet; get one with `fedboard board fetch`")
    board = open_board(cache)
    cosigned = config.cosigned_boards()
    if cosigned is not None:
        cosigned.require_shown(board, cache)
    protection = protection_of_board(board)
    if protection is not Protection.PRIVATE and not config.policy.seeded_noise:
        raise InputError(
            f"{cache}: its newest board is not used. {protection.verdict}; fetch the boards of a private run, or "
            "take simulations too with seeded_noise = true in [policy]"
        )
    return board


def _of_device(path: Path) -> "tuple[DeviceConfig, Path]":
    from fedboard.client.participation.config import load_device  # more to import than a reader needs

    config = load_device(path)
    if config.ratings.store is None:
        raise InputError(f"{path}: this device holds the ratings of many users; name one user's instead")
    return config, config.ratings.store


def _from_store(path: Path, board: Board) -> OwnView:
    with RatingStore.open(path) as store:
        own, n_ratings = store.cohort(board), len(store)
    if own.n_ratings == 0:
        raise InputError(
            f"{path}: none of its {n_ratings} ratings can be used with this board; add some with "
            "`fedboard ratings add`"
        )
    return OwnView(board=board, own=own, left_out=n_ratings - own.n_ratings)


def explained(item: str, view: OwnView) -> Explained:
    """Take the prediction for one item apart by own ratings.

    Args:
        item: an id, a title or a part of one title.
        view: a board with the ratings of one person.

    Raises:
        InputError: an item that is not known or not learnt, or a task whose own model cannot be explained.
    """
    return explain(view.own, view.board, ItemIndex(view.board.catalogue).find_part(item))


def neighbours(item: str, board: Board, *, k: int) -> list[Neighbour]:
    """The items that a board holds to be most alike, by the cosine of their factors. Public.

    Args:
        item: as for ``explained``.
        board: public.
        k: number of items wanted, >= 1.

    Raises:
        InputError: an item that is not known or not learnt, or k < 1.
    """
    return nearest_items(board, ItemIndex(board.catalogue).find_part(item), k=k)


def as_record(found: Any) -> Any:
    """What was found as JSON: an object for each named tuple, whatever is in it."""
    if isinstance(found, tuple) and hasattr(found, "_asdict"):
        return {name: as_record(value) for name, value in found._asdict().items()}
    return [as_record(one) for one in found] if isinstance(found, list | tuple) else found
