"""Why an item is recommended: what each of a person's own ratings adds to its predicted score, exactly.

Her own model is a ridge regression of her ratings on public item vectors, so a prediction is linear in them:

    prediction_i = base_i + sum_k  z_i^T (sum_l z_l z_l^T + lambda I + G)^-1 z_k  y_k

with z the vectors, y_k what the board alone leaves of rating k, and base_i what the board alone says of item i.
Where lists come from presence alone nothing may be fitted, and scale_i z_i^T z_k y_k is added up.
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import algorithm_of, rebuild_task
from fedboard.common.tasks.shared.algorithm import RatingTask
from fedboard.common.tasks.shared.regression import Regression


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
    task = rebuild_task(board)
    model = _regression(task, own, board)
    pulls = model.pulls(own.items, np.array([item], dtype=np.int32))[0]
    added = pulls * (own.ratings.astype(np.float64) - model.base[own.items])
    order = np.argsort(-np.abs(added), kind="stable")
    local = task.fit_local(own, board)
    predicted = task.predict(local, board, np.zeros(1, dtype=np.int32), np.array([item], dtype=np.int32))
    return Explanation(
        item=item,
        prediction=float(predicted[0]),
        base=float(model.base[item]),
        influences=tuple(
            Influence(item=int(own.items[k]), rating=float(own.ratings[k]), added=float(added[k]))
            for k in order
        ),
    )


def _regression(task: RatingTask, own: Cohort, board: Board) -> Regression:
    regression = algorithm_of(task.name).regression
    if regression is None:
        raise InputError(
            f"boards of the task {task.name!r} cannot be explained: own models are no ridge regressions there"
        )
    return regression(task.settings, own, board)
