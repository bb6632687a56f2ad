"""What the arrays of a board must be before a device computes anything from it: rules of what is public alone.

A board may be made so that computing fails for whoever rated one certain item: an item vector of 1e25 overflows, an
array that is cut short has no place for it. So every array that a device's part of a task reads is held, for all
items alike, against the shape that the configuration states and against limits that no honest board comes near.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedboard.common.board import AnyArray, Board
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig, Feedback
from fedboard.common.tasks.adadpals.task import AdaDpals
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.tasks.adadpsgd.task import AdaDpsgd
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.langevin.task import Langevin
from fedboard.common.tasks.registry import KnownTask
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.task import Residual
from fedboard.common.tasks.shared.adaptive_clipping import FARTHEST

LARGEST_NUMBER = 1e6
"""Bound on the magnitude of a coordinate, a bias or an item weight."""
_MOST_USERS = 1e12
_LEAST_WEIGHT = 1e-30
_ROUNDING = 1e-9
_REAL, _SINGLE, _BYTE = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRule:
    """What one array of a board must be. Public."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    low: float = -LARGEST_NUMBER
    high: float = LARGEST_NUMBER
    needed: bool = True
    """Whether it must be there; one that need not keeps to the rule where it is."""

    def holds(self, array: AnyArray | None) -> bool:
        """Whether an array, or None for its absence, keeps to this rule; a number that is not finite does not."""
        if array is None:
            return not self.needed
        if array.dtype != self.dtype or array.shape != self.shape:
            return False
        return bool(np.all((array >= self.low) & (array <= self.high)))


def array_rules(board: Board, task: KnownTask) -> tuple[ArrayRule, ...]:
    """The rules of all arrays that a device reads of a board of this version.

    Args:
        board: its version and its catalogue alone are looked at. Public.
        task: rebuilt from it.
    """
    match task:
        case AdaDpals():
            return (*_adadpals(board, task.settings), _moving_clip_norm(task.settings))
        case AdaDpsgd():
            return _adadpsgd(board, task.settings)
        case Langevin():
            return _langevin(board, task.settings)
        case Residual():
            return _residual(board, task.settings)


def has_sound_arrays(board: Board, task: KnownTask) -> bool:
    """Whether a board holds all that a device reads of it, each array as its rule says."""
    return all(rule.holds(board.arrays.get(rule.name)) for rule in array_rules(board, task))


def _adadpals(board: Board, settings: AdaDpalsConfig) -> tuple[ArrayRule, ...]:
    return (
        _vectors("item_factors", board, settings.rank),
        *(_prepared(board) if board.version else ()),
        *(_mean(settings) if board.version and settings.feedback is Feedback.EXPLICIT else ()),
    )


def _adadpsgd(board: Board, settings: AdaDpsgdConfig) -> tuple[ArrayRule, ...]:
    kept = board.version > 0 and settings.steps_per_solve > 1
    solved = _vectors("solve_factors", board, settings.rank, needed=kept)
    # Its bounds are fixed, so a moving one is none of its arrays; what is there under that name is not read.
    return (*_adadpals(board, settings.model), solved)


def _langevin(board: Board, settings: LangevinConfig) -> tuple[ArrayRule, ...]:
    model = _model(board, settings.rank)
    if board.version == 0:
        return model
    largest = settings.vector_bound * settings.model.residual_bound
    clip_norm = _number("clip_norm", largest * _ROUNDING, largest)
    return (*model, *_prepared(board), *_mean(settings), clip_norm)


def _residual(board: Board, settings: ResidualConfig) -> tuple[ArrayRule, ...]:
    model = (
        *_model(board, settings.rank),
        _vectors("sketch_factors", board, settings.rank, needed=False),
        _moving_clip_norm(settings),
    )
    if board.version == 0:
        return model
    mean = _mean(settings) if settings.has_biases else (_number("mean", 0.0, 0.0),)
    return (*model, *_prepared(board), *mean)


def _prepared(board: Board) -> Iterator[ArrayRule]:
    """What the preparation round of every task puts on the board."""
    per_item = (board.catalogue.n_items,)
    yield ArrayRule(name="item_counts", dtype=_REAL, shape=per_item, low=1.0, high=_MOST_USERS)
    yield ArrayRule(name="item_weights", dtype=_REAL, shape=per_item, low=_LEAST_WEIGHT)
    yield ArrayRule(name="learnt", dtype=_BYTE, shape=per_item, low=0, high=1)


def _mean(settings: AdaDpalsConfig | LangevinConfig | ResidualConfig) -> tuple[ArrayRule]:
    return (_number("mean", settings.rating_low, settings.rating_high),)


def _moving_clip_norm(settings: AdaDpalsConfig | ResidualConfig) -> ArrayRule:
    low, high = settings.clip_norm / FARTHEST, settings.largest_clip_norm
    return _number("clip_norm", low * (1 - _ROUNDING), high * (1 + _ROUNDING), needed=False)


def _model(board: Board, rank: int) -> tuple[ArrayRule, ArrayRule]:
    biases = ArrayRule(name="item_biases", dtype=_SINGLE, shape=(board.catalogue.n_items,))
    return (_vectors("item_factors", board, rank), biases)


def _vectors(name: str, board: Board, rank: int, *, needed: bool = True) -> ArrayRule:
    return ArrayRule(name=name, dtype=_SINGLE, shape=(board.catalogue.n_items, rank), needed=needed)


def _number(name: str, low: float, high: float, *, needed: bool = True) -> ArrayRule:
    return ArrayRule(name=name, dtype=_REAL, shape=(1,), low=low, high=high, needed=needed)


__all__ = ["LARGEST_NUMBER", "ArrayRule", "array_rules", "has_sound_arrays"]
