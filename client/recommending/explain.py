"""Why an item is recommended: what each of a person's own ratings adds to its predicted score, exactly.

Her own model is a ridge regression of her ratings on public item vectors, so a prediction is linear in them:

    prediction_i = base_i + sum_k  z_i^T (sum_l z_l z_l^T + lambda I + G)^-1 z_k  y_k

with z the vectors, y_k what the board alone leaves of rating k, and base_i what the board alone says of item i.
Where lists come from presence alone nothing may be fitted, and scale_i z_i^T z_k y_k is added up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fedboard.client.recommending.recommend import rating_range_of
from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import algorithm_of, rebuild_task
from fedboard.common.tasks.shared.algorithm import RatingTask
from fedboard.common.tasks.shared.regression import Regression

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

    def words(self, titles: Sequence[str], *, listed: bool = True) -> str:
        """For people; ``titles`` are those of the rated items. What is ``listed`` all the same is so by itself."""
        if self.effect is Effect.RAISED and self.rated is not None:
            return f"your ratings add {self.net:.2f}, most of all {titles[self.rated]}"
        alone = "popular with everybody; " if listed else ""
        lowered = f"your ratings take {-self.net:.2f} off"
        return alone + (lowered if self.effect is Effect.LOWERED else "your ratings hardly move it")


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
