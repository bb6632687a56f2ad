"""What one person does with a board: recommendations, their reasons, similar items. Nothing leaves this process."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from fedboard.client.boards.cache import open_board
from fedboard.client.participation import own_view
from fedboard.client.participation.own_view import OwnView, open_own
from fedboard.client.ratings.own_file import own_ratings
from fedboard.client.recommending import recommend as computing
from fedboard.client.recommending.recommend import Explained, Neighbour, Recommended, rating_range_of
from fedboard.common.board import Board
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError

Place: TypeAlias = str | Path
OwnRatings: TypeAlias = Mapping[str, float] | Mapping[int, float] | Iterable[str] | Iterable[int] | Path
"""One person's ratings: item (id or full title) -> rating, or the items alone where feedback is implicit; or the
path (``str`` or ``Path``) of a CSV file, a rating store or a device.toml. Private."""


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
    """The best items for one person among those that they have not rated and the board has learnt.

    Args:
        ratings: theirs, such as ``{"Matrix, The (1999)": 5.0, "296": 3.5}``. Private.
        board: a board, or where one is. Public.
        k: number of items wanted, >= 1.

    Returns:
        At most k, best first. Private.

    Raises:
        InputError: an item that the board does not know, a rating off its range, no ratings, or k < 1.
    """
    view = _view(ratings, board)
    return computing.recommend(view.own, view.board, k=k)


def explain(item: str | int, ratings: OwnRatings, board: Board | Place) -> Explained:
    """Take the prediction for one item apart: what each own rating adds, exactly.

    Args:
        item: an id, a title or a part of one title.
        ratings: as for ``recommend``. Private.
        board: as for ``recommend``.

    Raises:
        InputError: an item that is not known or not learnt, or a task whose own model cannot be explained.
    """
    return own_view.explained(str(item), _view(ratings, board))


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
    return own_view.neighbours(str(item), _opened(board), k=k)


def _opened(board: Board | Place) -> Board:
    return board if isinstance(board, Board) else load_board(board)


def _view(ratings: OwnRatings, board: Board | Place) -> OwnView:
    opened = _opened(board)
    if isinstance(ratings, str | Path):
        return open_own(Path(ratings), opened)
    scale = rating_range_of(opened)
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
