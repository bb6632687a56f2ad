"""Recommendations on the device: solve one's own vector from the board, rank what one has not rated, say why; and
which items the board holds to be alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One suggested item. Private: it tells about the person it is for."""

    item: int
    """Number of the item in the board's catalogue."""
    score: float
    """Predicted rating on the public range; for implicit feedback a score without a unit."""


def rating_range_of(board: Board) -> tuple[float, float] | None:
    """The public range of ratings, inclusive; None for a board of implicit feedback."""
    if board.task == QUESTION:
        from fedboard.common.queries.statement import rebuilt_question

        return rebuilt_question(board).statement.rating_range
    shared = rebuild_task(board).settings.shared
    return (shared.rating_low, shared.rating_high) if shared.feedback is Feedback.EXPLICIT else None


def recommend(own: Cohort, board: Board, *, k: int) -> list[Recommendation]:
    """The best items for one person among those that she has not rated and the board has learnt.

    Pure: reads its arguments, sends nothing.

    Args:
        own: a cohort of one: her ratings. Private.
        board: public.
        k: number of items wanted, >= 1.

    Returns:
        At most k recommendations, best first. Private.

    Raises:
        InputError: k < 1, or not exactly one person.

    Reference: the user step of Krichene et al. (2023), Alg. 1.
    """
    if own.n_users != 1:
        raise InputError(f"recommendations are made for one person at a time, got {own.n_users}")
    task = rebuild_task(board)
    local = task.fit_local(own, board)
    asked = np.asarray(board.arrays["learnt"]) != 0
    asked[own.items] = False
    chosen = _best(task, local, board, asked, k=min(k, board.catalogue.n_items))
    scores = task.predict(local, board, np.zeros(chosen.size, dtype=np.int32), chosen)
    return [
        Recommendation(item=int(item), score=float(score)) for item, score in zip(chosen, scores, strict=True)
    ]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One similar item. Public, like the board."""

    item: int
    """Number of the item in the board's catalogue."""
    cosine: float
    """In [-1, 1]; 1 is the same direction."""


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
    return [Neighbour(item=int(others[n]), cosine=float(np.clip(cosines[n], -1.0, 1.0))) for n in nearest]


_HARDLY = 0.01
"""A net effect of at most this share of the public range is none that a person would see."""


class Effect(StrEnum):
    """What all own ratings together do to an item's score, against the score for somebody without ratings."""

    RAISED = "raised"
    LOWERED = "lowered"
    HARDLY_MOVED = "hardly-moved"
    """The item is where it would be without them: popular with everybody, or with nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why an item has its score, in short. Private."""

    effect: Effect
    net: float
    """What all own ratings together add, in the unit of the score."""
    rated: int | None
    """Which own rating, by its place among them, adds most in that direction; None where they hardly moved it."""


def reason_of(base: float, added: Sequence[float], rating_range: tuple[float, float] | None) -> Reason:
    """Say what own ratings do to one item. The board page says the same (``script/taste/own_list.js``).

    Args:
        base: score for somebody without ratings. Public.
        added: what each own rating adds to it. Private.
        rating_range: public range of ratings; None for presence, where effects are held against the score.
    """
    net = float(sum(added))
    low, high = rating_range or (0.0, max(abs(base), abs(base + net)))
    if abs(net) <= _HARDLY * (high - low):
        return Reason(effect=Effect.HARDLY_MOVED, net=net, rated=None)
    effect = Effect.RAISED if net > 0 else Effect.LOWERED
    return Reason(effect=effect, net=net, rated=int(np.argmax(np.asarray(added) * np.sign(net))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """What one rating adds. Private."""

    item: int
    """Number of the rated item in the board's catalogue."""
    rating: float
    added: float
    """In the unit of the score; negative where it pulls down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A prediction taken apart. Private."""

    item: int
    prediction: float
    """As ``recommend`` gives it: on the public range of ratings, where there is one."""
    base: float
    """What the board alone says, to somebody without any rating."""
    influences: tuple[Influence, ...]
    """One per own rating, strongest first."""
    reason: Reason
    """In short; its ``rated`` is a place in ``influences``."""

    @property
    def total(self) -> float:
        """Base and all influences together: the prediction before it is held to the public range."""
        return self.base + float(np.sum([influence.added for influence in self.influences]))


def explain(own: Cohort, board: Board, item: int) -> Explanation:
    """Take the prediction for one item apart by own ratings.

    Args:
        own: a cohort of one: her ratings. Private.
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
    if np.asarray(board.arrays["learnt"])[item] == 0:
        raise InputError(
            f"item {board.catalogue.item_ids[item]!r} is not among those that this board has learnt, so there is "
            "nothing to explain"
        )
    bases, parts = _taken_apart(own, board, np.array([item], dtype=np.int32))
    order = np.argsort(-np.abs(parts[0]), kind="stable")
    base, added = float(bases[0]), parts[0][order]
    task = rebuild_task(board)
    local = task.fit_local(own, board)
    predicted = task.predict(local, board, np.zeros(1, dtype=np.int32), np.array([item], dtype=np.int32))
    return Explanation(
        item=item,
        prediction=float(predicted[0]),
        base=base,
        influences=tuple(
            Influence(item=int(own.items[k]), rating=float(own.ratings[k]), added=float(part))
            for k, part in zip(order, added, strict=True)
        ),
        reason=reason_of(base, added, rating_range_of(board)),
    )


def reasons(own: Cohort, board: Board, items: Sequence[int]) -> list[Reason | None]:
    """Why each of some items has its score, in short; ``rated`` is a place in the person's own ratings.

    Args:
        own: a cohort of one. Private.
        board: public.
        items: numbers of the items.

    Returns:
        One for each item; None where the own models of the board's task cannot be taken apart.
    """
    if algorithm_of(board.task).regression is None:
        return [None] * len(items)
    bases, parts = _taken_apart(own, board, np.asarray(items, dtype=np.int32))
    rating_range = rating_range_of(board)
    return [reason_of(float(base), added, rating_range) for base, added in zip(bases, parts, strict=True)]


def _taken_apart(own: Cohort, board: Board, items: IndexArray) -> tuple[FloatArray, FloatArray]:
    """What the board alone says of items, shape (n,), and what each own rating adds, shape (n, n_own)."""
    model = _regression(rebuild_task(board), own, board)
    beyond = own.ratings.astype(np.float64) - model.base[own.items]
    return model.base[items], model.pulls(own.items, items) * beyond


def _regression(task: RatingTask, own: Cohort, board: Board) -> Regression:
    regression = algorithm_of(task.name).regression
    if regression is None:
        raise InputError(
            f"boards of the task {task.name!r} cannot be explained: own models are no ridge regressions there"
        )
    return regression(task.settings, own, board)
