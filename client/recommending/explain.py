"""Why an item is recommended: what each of a person's own ratings adds to its predicted score, exactly.

Her own model is a ridge regression of her ratings on public item vectors, so a prediction is linear in them:

    prediction_i = base_i + sum_k  z_i^T (sum_l z_l z_l^T + lambda I + G)^-1 z_k  y_k

with z the vectors, y_k what the board alone leaves of rating k, and base_i what the board alone says of item i.
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig
from fedboard.common.tasks.registry import KnownTask, rebuild_task
from fedboard.common.tasks.residual.config import ResidualConfig, StageKind, stage_of
from fedboard.common.tasks.shared.ratings_config import Feedback


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Regression:
    """A person's ridge regression. ``vectors`` and ``base`` are public, the rest private."""

    vectors: FloatArray
    """z: float64, shape (n_items, width)."""
    base: FloatArray
    """What the board alone predicts: float64, shape (n_items,)."""
    ridge: float
    """Lambda, one for all coordinates."""
    gram: FloatArray | float
    """G: float64, shape (width, width), or 0."""


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
    rated = model.vectors[own.items]
    system = rated.T @ rated + model.ridge * np.eye(rated.shape[1]) + model.gram
    pulls = rated @ np.linalg.solve(system, model.vectors[item])
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


def _regression(task: KnownTask, own: Cohort, board: Board) -> _Regression:
    """Of a task itself, or of the one whose model of ratings it shares."""
    match getattr(task.settings, "model", task.settings):
        case AdaDpalsConfig() as settings:
            return _of_adadpals(settings, own, board)
        case ResidualConfig() as settings:
            return _of_residual(settings, own, board)
    raise InputError(f"boards of the task {board.task!r} cannot be explained by this version of fedboard")


def _of_adadpals(settings: AdaDpalsConfig, own: Cohort, board: Board) -> _Regression:
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    explicit = settings.feedback is Feedback.EXPLICIT
    return _Regression(
        vectors=factors,
        base=np.full(factors.shape[0], float(board.arrays["mean"][0]) if explicit else 0.0),
        ridge=settings.user_ridge * max(own.n_ratings, 1) ** settings.user_ridge_exponent,
        gram=settings.unobserved_weight * (factors.T @ factors),
    )


def _of_residual(settings: ResidualConfig, own: Cohort, board: Board) -> _Regression:
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    done = stage_of(board.version, settings).kind is StageKind.DONE
    final = settings.final_user_ridge if done else None
    strength = settings.user_ridge if final is None else final
    ridge = strength * max(own.n_ratings, 1) ** settings.user_ridge_exponent
    if not settings.has_biases:
        gram = settings.unobserved_weight * (factors.T @ factors)
        return _Regression(vectors=factors, base=np.zeros(factors.shape[0]), ridge=ridge, gram=gram)
    constant = np.full((factors.shape[0], 1), np.sqrt(strength / settings.user_bias_ridge))
    biases = np.asarray(board.arrays["item_biases"], dtype=np.float64)
    return _Regression(
        vectors=np.hstack([constant, factors]),
        base=float(board.arrays["mean"][0]) + biases,
        ridge=ridge,
        gram=0.0,
    )


__all__ = ["Explanation", "Influence", "explain"]
