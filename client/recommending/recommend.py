"""Recommendations on the device: solve one's own vector from the board, rank what one has not rated; and which
items the board holds to be alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedboard.common.arrays import BoolArray, Float32Array, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.questions.names import TASK as QUESTION
from fedboard.common.tasks.registry import rebuild_task
from fedboard.common.tasks.shared.algorithm import RatingTask
from fedboard.common.tasks.shared.ratings_config import Feedback

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
        from fedboard.common.questions.statement import rebuilt_question

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
