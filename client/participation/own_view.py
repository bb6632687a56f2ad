"""What one person gets from a board, by ids and titles: where their ratings are (a CSV file, a store, or their
device's), recommendations, reasons and similar items. Nothing leaves this process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedboard.client.boards.cache import open_board
from fedboard.client.private_files import is_database
from fedboard.client.ratings.own_file import read_own_ratings
from fedboard.client.ratings.store import RatingStore
from fedboard.client.recommending import recommend as numbered
from fedboard.client.recommending.catalogue_search import ItemIndex, title_of
from fedboard.client.recommending.recommend import Effect, rating_range_of
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.protection import Protection, protection_of_board

if TYPE_CHECKING:
    from fedboard.client.participation.config import DeviceConfig
    from fedboard.common.boards.witnesses import Witnesses


class Reason(NamedTuple):
    """What all own ratings together do to an item's score, against somebody without ratings. Private."""

    effect: str
    """``raised``, ``lowered``, or ``hardly-moved``: popular with everybody, whatever they rated."""
    net: float
    """What they add together, in the unit of the score."""
    item_id: str | None
    """Of the rated item that adds most in that direction; None where they hardly moved it."""
    title: str | None
    """Of that item, where there is one and the board has titles."""

    def words(self, *, listed: bool = True) -> str:
        """In short, for people. What is ``listed`` although the ratings hardly moved it is so by itself."""
        if self.effect == Effect.RAISED:
            return f"your ratings add {self.net:.2f}, most of all {self.title or self.item_id}"
        alone = "popular with everybody; " if listed else ""
        lowered = f"your ratings take {-self.net:.2f} off"
        return alone + (lowered if self.effect == Effect.LOWERED else "your ratings hardly move it")


class Recommended(NamedTuple):
    """One suggestion. Private: it tells about the person it is for."""

    item_id: str
    """The publisher's id."""
    title: str | None
    """None where the board has no titles."""
    score: float
    """Predicted rating on the public range; for implicit feedback a score without a unit."""
    reason: Reason | None
    """Why it is on the list; None where the own models of the board's algorithm cannot be taken apart."""


class Neighbour(NamedTuple):
    """One similar item. Public, like the board."""

    item_id: str
    """The publisher's id."""
    title: str | None
    """None where the board has no titles."""
    cosine: float
    """In [-1, 1]; 1 is the same direction."""


class Influence(NamedTuple):
    """What one own rating adds to a prediction. Private."""

    item_id: str
    """Of the item that they rated."""
    title: str | None
    """None where the board has no titles."""
    rating: float
    """Theirs."""
    added: float
    """In the unit of the score; negative where it pulls down."""


class Explained(NamedTuple):
    """A prediction taken apart: ``base`` and all that is ``added`` sum to ``total``. Private."""

    item_id: str
    """Of the item that the prediction is about."""
    title: str | None
    """None where the board has no titles."""
    prediction: float
    """As ``recommend`` gives it."""
    total: float
    """Before it is held to the public range."""
    base: float
    """What the board alone says, to somebody without any rating."""
    influences: tuple[Influence, ...]
    """One per own rating, strongest first."""
    reason: Reason
    """All of them together."""


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
        own, coverage = store.cohort(board), store.coverage(board)
    if own.n_ratings == 0:
        raise InputError(
            f"{path}: none of its {coverage.left_out} ratings can be used with this board; add some with "
            "`fedboard ratings add`"
        )
    return OwnView(board=board, own=own, left_out=coverage.left_out)


def recommended(view: OwnView, *, k: int) -> list[Recommended]:
    """The best items for one person; see ``fedboard.client.recommending.recommend.recommend``."""
    catalogue = view.board.catalogue
    best = numbered.recommend(view.own, view.board, k=k)
    why = numbered.reasons(view.own, view.board, [found.item for found in best])
    return [
        Recommended(
            *_name(catalogue, found.item), found.score, _named(reason, view.own.items.tolist(), catalogue)
        )
        for found, reason in zip(best, why, strict=True)
    ]


def explained(item: str, view: OwnView) -> Explained:
    """Take the prediction for one item apart by own ratings.

    Args:
        item: an id, a title or a part of one title.
        view: a board with the ratings of one person.

    Raises:
        InputError: an item that is not known or not learnt, or a task whose own model cannot be explained.
    """
    catalogue = view.board.catalogue
    found = numbered.explain(view.own, view.board, ItemIndex(catalogue).find_part(item))
    reason = _named(found.reason, [part.item for part in found.influences], catalogue)
    assert reason is not None  # what can be taken apart has one
    return Explained(
        *_name(catalogue, found.item),
        prediction=found.prediction,
        total=found.total,
        base=found.base,
        influences=tuple(
            Influence(*_name(catalogue, part.item), part.rating, part.added) for part in found.influences
        ),
        reason=reason,
    )


def neighbours(item: str, board: Board, *, k: int) -> list[Neighbour]:
    """The items that a board holds to be most alike, by the cosine of their factors. Public.

    Args:
        item: as for ``explained``.
        board: public.
        k: number of items wanted, >= 1.

    Raises:
        InputError: an item that is not known or not learnt, or k < 1.
    """
    found = numbered.nearest_items(board, ItemIndex(board.catalogue).find_part(item), k=k)
    return [Neighbour(*_name(board.catalogue, one.item), one.cosine) for one in found]


def as_record(found: Any) -> Any:
    """What was found as JSON: an object for each named tuple, whatever is in it."""
    if isinstance(found, tuple) and hasattr(found, "_asdict"):
        return {name: as_record(value) for name, value in found._asdict().items()}
    return [as_record(one) for one in found] if isinstance(found, list | tuple) else found


def _name(catalogue: Catalogue, number: int) -> tuple[str, str | None]:
    return catalogue.item_ids[number], title_of(catalogue, number)


def _named(reason: numbered.Reason | None, rated: Sequence[int], catalogue: Catalogue) -> Reason | None:
    if reason is None:
        return None
    told = (None, None) if reason.rated is None else _name(catalogue, rated[reason.rated])
    return Reason(str(reason.effect), reason.net, *told)
