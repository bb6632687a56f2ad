"""What one person does with a board: recommendations, their reasons, similar items. Nothing leaves this process."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from fedboard.client.boards.cache import open_board
from fedboard.client.participation.own_ratings import OwnView, open_own
from fedboard.client.ratings.own_file import own_ratings
from fedboard.client.recommending import recommend as recommending
from fedboard.client.recommending.catalogue_search import ItemIndex, title_of
from fedboard.common.board import Board
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError

Place: TypeAlias = str | Path
OwnRatings: TypeAlias = Mapping[str, float] | Mapping[int, float] | Iterable[str] | Iterable[int] | Path
"""One person's ratings: item (id or full title) -> rating, or the items alone where feedback is implicit; or the
path (``str`` or ``Path``) of a CSV file, a rating store or a device.toml. Private."""


class Reason(NamedTuple):
    """What all own ratings together do to an item's score, against somebody without ratings. Private."""

    effect: str
    """``raised``, ``lowered``, or ``hardly-moved``: popular with everybody, whatever she rated."""
    net: float
    """What they add together, in the unit of the score."""
    item_id: str | None
    """Of the rated item that adds most in that direction; None where they hardly moved it."""


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
    """Of the item that she rated."""
    title: str | None
    """None where the board has no titles."""
    rating: float
    """Hers."""
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


def load_board(place: Place, *, witnesses: Sequence[str] = (), cosignatures: int | None = None) -> Board:
    """Open a board whose content is what its name or its certificate states.

    Args:
        place: a board file, or the directory of a run or a cache, of which the newest board is taken.
        witnesses: public keys, 64 hexadecimal digits each, of whom enough must have cosigned the board, as it was
            fetched into a cache. Empty: nobody need have.
        cosignatures: how many are enough: more than half of them. None: as few as that.

    Raises:
        InputError: no board there, damaged, changed, not witnessed, or from before the first learning round.
    """
    return open_board(Path(place), witnesses=Witnesses.of(witnesses, cosignatures))


def recommend(ratings: OwnRatings, board: Board | Place, *, k: int = 10) -> list[Recommended]:
    """The best items for one person among those that she has not rated and the board has learnt.

    Args:
        ratings: hers, such as ``{"Matrix, The (1999)": 5.0, "296": 3.5}``. Private.
        board: a board, or where one is. Public.
        k: number of items wanted, >= 1.

    Returns:
        At most k, best first. Private.

    Raises:
        InputError: an item that the board does not know, a rating off its range, no ratings, or k < 1.
    """
    view = _view(ratings, board)
    catalogue = view.board.catalogue
    best = recommending.recommend(view.own, view.board, k=k)
    why = recommending.reasons(view.own, view.board, [found.item for found in best])
    rated = [catalogue.item_ids[item] for item in view.own.items]
    return [
        Recommended(
            item_id=catalogue.item_ids[found.item],
            title=title_of(catalogue, found.item),
            score=found.score,
            reason=None if reason is None else _named(reason, rated),
        )
        for found, reason in zip(best, why, strict=True)
    ]


def explain(item: str | int, ratings: OwnRatings, board: Board | Place) -> Explained:
    """Take the prediction for one item apart: what each own rating adds, exactly.

    Args:
        item: an id, a title or a part of one title.
        ratings: as for ``recommend``. Private.
        board: as for ``recommend``.

    Raises:
        InputError: an item that is not known or not learnt, or a task whose own model cannot be explained.
    """
    view = _view(ratings, board)
    catalogue = view.board.catalogue
    number = ItemIndex(catalogue).find_part(str(item))
    found = recommending.explain(view.own, view.board, number)
    rated = [catalogue.item_ids[part.item] for part in found.influences]
    return Explained(
        item_id=catalogue.item_ids[number],
        title=title_of(catalogue, number),
        prediction=found.prediction,
        total=found.total,
        base=found.base,
        influences=tuple(
            Influence(catalogue.item_ids[part.item], title_of(catalogue, part.item), part.rating, part.added)
            for part in found.influences
        ),
        reason=_named(found.reason, rated),
    )


def neighbours(item: str | int, board: Board | Place, *, k: int = 10) -> list[Neighbour]:
    """The items that the board holds to be most alike, by the cosine of their factors. Public.

    Args:
        item: an id, a title or a part of one title.
        board: a board, or where one is. Public.
        k: number of items wanted, >= 1.

    Returns:
        At most k, most alike first.

    Raises:
        InputError: an item that is not known or not learnt, or k < 1.
    """
    opened = _opened(board)
    catalogue = opened.catalogue
    number = ItemIndex(catalogue).find_part(str(item))
    return [
        Neighbour(catalogue.item_ids[found.item], title_of(catalogue, found.item), found.cosine)
        for found in recommending.nearest_items(opened, number, k=k)
    ]


def _named(reason: recommending.Reason, rated: Sequence[str]) -> Reason:
    return Reason(str(reason.effect), reason.net, None if reason.rated is None else rated[reason.rated])


def _opened(board: Board | Place) -> Board:
    return board if isinstance(board, Board) else load_board(board)


def _view(ratings: OwnRatings, board: Board | Place) -> OwnView:
    opened = _opened(board)
    if isinstance(ratings, str | Path):
        return open_own(Path(ratings), opened)
    scale = recommending.rating_range_of(opened)
    own = own_ratings(_rows(ratings, explicit=scale is not None), opened.catalogue, rating_range=scale)
    if own.n_ratings == 0:
        raise InputError("no ratings: give at least one item, by id or full title")
    return OwnView(board=opened, own=own, left_out=0)


def _rows(
    ratings: Mapping[str, float] | Mapping[int, float] | Iterable[str] | Iterable[int], *, explicit: bool
) -> Iterable[tuple[str, str, object]]:
    if isinstance(ratings, Mapping):
        return ((f"ratings[{item!r}]", str(item), rating) for item, rating in ratings.items())
    if explicit:
        raise InputError("this board is about ratings: give them as {item: rating}, not the items alone")
    return (("ratings", str(item), 1.0) for item in ratings)
