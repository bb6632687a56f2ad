"""Recommendations on the device: solve one's own vector from the board, rank what one has not rated, say why; and
which items the board holds to be alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from fedboard.client.recommending.catalogue_search import title_of
from fedboard.common.algorithms.registry import algorithm_of, rebuild_task
from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.regression import Regression
from fedboard.common.arrays import BoolArray, Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.queries.names import TASK as QUESTION

_ITEMS_AT_ONCE = 1 << 13
"""Of a larger catalogue blocks are ranked one after the other: its factors are read from the file, not copied."""
_HARDLY = 0.01
"""A net effect of at most this share of the public range is none that a person would see."""


class Effect(StrEnum):
    """What all own ratings together do to an item's score, against the score for somebody without ratings."""

    RAISED = "raised"
    LOWERED = "lowered"
    HARDLY_MOVED = "hardly-moved"
    """The item is where it would be without them: popular with everybody, or with nobody."""


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


def rating_range_of(board: Board) -> tuple[float, float] | None:
    """The public range of ratings, inclusive; None for a board of implicit feedback."""
    if board.task == QUESTION:
        from fedboard.common.queries.statement import rebuilt_question

        return rebuilt_question(board).statement.rating_range
    shared = rebuild_task(board).settings.shared
    return (shared.rating_low, shared.rating_high) if shared.feedback is Feedback.EXPLICIT else None


def recommend(own: Cohort, board: Board, *, k: int) -> list[Recommended]:
    """The best items for one person among those that they have not rated and the board has learnt.

    Pure: reads its arguments, sends nothing.

    Args:
        own: a cohort of one: their ratings. Private.
        board: public.
        k: number of items wanted, >= 1.

    Returns:
        At most k recommendations, best first. Private.

    Raises:
        InputError: k < 1, or not exactly one person.

    Reference: the user step of Krichene et al. (2023), Alg. 1.
    """
    chosen, scores = ranked(own, board, k=k)
    why = _reasons(own, board, chosen)
    return [
        Recommended(*_name(board.catalogue, item), float(score), reason)
        for item, score, reason in zip(chosen, scores, why, strict=True)
    ]


def ranked(own: Cohort, board: Board, *, k: int) -> tuple[IndexArray, FloatArray]:
    """The same without reasons, which take the factors of all items: numbers of the items, and their scores."""
    if own.n_users != 1:
        raise InputError(f"recommendations are made for one person at a time, got {own.n_users}")
    task = rebuild_task(board)
    local = task.fit_local(own, board)
    asked = np.asarray(board.arrays["learnt"]) != 0
    asked[own.items] = False
    chosen = _best(task, local, board, asked, k=min(k, board.catalogue.n_items))
    return chosen, task.predict(local, board, np.zeros(chosen.size, dtype=np.int32), chosen)


def _best(task: RatingTask, local: Float32Array, board: Board, asked: BoolArray, *, k: int) -> IndexArray:
    """The k best of the items that are asked about, best first, ties to the lower number; fewer where there are not
    as many.
    """
    if k < 1:
        raise InputError(f"k must be >= 1, got {k}")
    items, scores = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    for start, block in _item_blocks(board):
        users, vectors = task.ranking_factors(local, block)
        found = np.asarray(vectors @ users[0], dtype=np.float32)
        among = np.flatnonzero(asked[start : start + found.size] & (found > -np.inf))
        if among.size > k:  # with all that tie with the last of them
            least = np.partition(found[among], among.size - k)[among.size - k]
            among = among[found[among] >= least]
        items = np.concatenate([items, (start + among).astype(np.int32)])
        scores = np.concatenate([scores, found[among]])
        best = np.argsort(-scores, kind="stable")[:k]
        items, scores = items[best], scores[best]
    return items


def _item_blocks(board: Board) -> Iterator[tuple[int, Board]]:
    """A board's items in blocks, each as a board of these alone with the number of its first item.

    What public features say of an item is standardised over the catalogue, so with features it stays whole.
    """
    n_items = board.catalogue.n_items
    if n_items <= _ITEMS_AT_ONCE or board.catalogue.features is not None:
        yield 0, board
        return
    for start in range(0, n_items, _ITEMS_AT_ONCE):
        some = slice(start, min(start + _ITEMS_AT_ONCE, n_items))
        arrays = {
            name: values[some] if values.shape[:1] == (n_items,) else values
            for name, values in board.arrays.items()
        }
        catalogue = Catalogue(item_ids=board.catalogue.item_ids[some])
        yield start, replace(board, arrays=arrays, catalogue=catalogue, _digest=[])


def nearest_items(board: Board, item: int, *, k: int) -> list[Neighbour]:
    """The k items whose factors point most nearly the same way; equal cosines go to the lower number.

    Args:
        board: public.
        item: number of the item, in 0..n_items - 1.
        k: number of neighbours wanted, >= 1.

    Returns:
        At most k neighbours, nearest first; items that are not learnt are left out.

    Raises:
        InputError: k < 1, a board without vectors of items, or one that has learnt nothing about this item.
    """
    if k < 1:
        raise InputError(f"k must be >= 1, got {k}")
    if "item_factors" not in board.arrays:
        raise InputError(
            f"boards of the task {board.task!r} have no vectors of items, so items have no neighbours"
        )
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    norms = np.linalg.norm(factors, axis=1)
    if norms[item] == 0:
        raise InputError(
            f"item {board.catalogue.item_ids[item]!r} is not among those that this board has learnt, so it has "
            "no neighbours"
        )
    others = np.flatnonzero(norms > 0)
    others = others[others != item]
    cosines = (factors[others] @ factors[item]) / (norms[others] * norms[item])
    nearest = np.argsort(-cosines, kind="stable")[:k]
    return [
        Neighbour(*_name(board.catalogue, others[n]), float(np.clip(cosines[n], -1.0, 1.0))) for n in nearest
    ]


def explain(own: Cohort, board: Board, item: int) -> Explained:
    """Take the prediction for one item apart by own ratings.

    Args:
        own: a cohort of one: their ratings. Private.
        board: public.
        item: number of the item, in 0..n_items - 1.

    Returns:
        Contributions that sum to the prediction, to rounding. Private.

    Raises:
        InputError: not exactly one person, an item that the board has not learnt, or a task whose own model is
            no ridge regression.
    """
    if own.n_users != 1:
        raise InputError(f"explanations are made for one person at a time, got {own.n_users}")
    catalogue, items = board.catalogue, np.array([item], dtype=np.int32)
    if np.asarray(board.arrays["learnt"])[item] == 0:
        raise InputError(
            f"item {catalogue.item_ids[item]!r} is not among those that this board has learnt, so there is "
            "nothing to explain"
        )
    task = rebuild_task(board)
    if algorithm_of(task.name).regression is None:
        raise InputError(
            f"boards of the task {task.name!r} cannot be explained: own models are no ridge regressions there"
        )
    bases, parts = _taken_apart(own, board, items)
    base, added = float(bases[0]), parts[0]
    predicted = task.predict(task.fit_local(own, board), board, np.zeros(1, dtype=np.int32), items)
    return Explained(
        *_name(catalogue, item),
        prediction=float(predicted[0]),
        total=base + float(np.sum(added)),
        base=base,
        influences=tuple(
            Influence(*_name(catalogue, own.items[k]), float(own.ratings[k]), float(added[k]))
            for k in np.argsort(-np.abs(added), kind="stable")
        ),
        reason=_reason(base, added, own, board),
    )


def reason_of(
    base: float, added: Sequence[float] | FloatArray, rating_range: tuple[float, float] | None
) -> tuple[Effect, float, int | None]:
    """Say what own ratings do to one item. The board page says the same (``script/taste/own_list.js``).

    Args:
        base: score for somebody without ratings. Public.
        added: what each own rating adds to it. Private.
        rating_range: public range of ratings; None for presence, where effects are held against the score.

    Returns:
        The effect, what all own ratings add, and which of them, by its place, adds most in that direction; None
        where they hardly moved it.
    """
    net = float(sum(added))
    low, high = rating_range or (0.0, max(abs(base), abs(base + net)))
    if abs(net) <= _HARDLY * (high - low):
        return Effect.HARDLY_MOVED, net, None
    effect = Effect.RAISED if net > 0 else Effect.LOWERED
    return effect, net, int(np.argmax(np.asarray(added) * np.sign(net)))


def _reason(base: float, added: FloatArray, own: Cohort, board: Board) -> Reason:
    effect, net, rated = reason_of(base, added, rating_range_of(board))
    name = (None, None) if rated is None else _name(board.catalogue, own.items[rated])
    return Reason(str(effect), net, *name)


def _reasons(own: Cohort, board: Board, items: IndexArray) -> list[Reason | None]:
    """Why each of some items has its score; None where the own models of the board's task cannot be taken apart."""
    if algorithm_of(board.task).regression is None:
        return [None] * items.size
    bases, parts = _taken_apart(own, board, items)
    return [_reason(float(base), added, own, board) for base, added in zip(bases, parts, strict=True)]


def _taken_apart(own: Cohort, board: Board, items: IndexArray) -> tuple[FloatArray, FloatArray]:
    """What the board alone says of items, shape (n,), and what each own rating adds, shape (n, n_own)."""
    regression = algorithm_of(board.task).regression
    assert regression is not None  # asked before
    model: Regression = regression(rebuild_task(board).settings, own, board)
    beyond = own.ratings.astype(np.float64) - model.base[own.items]
    return model.base[items], model.pulls(own.items, items) * beyond


def _name(catalogue: Catalogue, number: int) -> tuple[str, str | None]:
    return catalogue.item_ids[number], title_of(catalogue, number)
