"""Recommendations on the device: solve one's own vector from the board, rank what one has not rated."""

from dataclasses import dataclass

import numpy as np

from fedboard.common import kernels
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.questions.names import TASK as QUESTION
from fedboard.common.tasks.registry import rebuild_task
from fedboard.common.tasks.shared.ratings_config import Feedback


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
        from fedboard.common.questions.stated_task import rebuilt_question

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
    not_learnt = np.flatnonzero(np.asarray(board.arrays["learnt"]) == 0)
    excluded = np.union1d(own.items, not_learnt).astype(np.int32)
    users, items = task.ranking_factors(local, board)
    best = kernels.top_k(
        users,
        items,
        k=min(k, board.catalogue.n_items),
        exclude_indptr=np.array([0, excluded.size], dtype=np.int64),
        exclude_items=excluded,
        backend=task.backend,
    )[0]
    chosen = best[best >= 0]
    scores = task.predict(local, board, np.zeros(chosen.size, dtype=np.int32), chosen)
    return [
        Recommendation(item=int(item), score=float(score)) for item, score in zip(chosen, scores, strict=True)
    ]
