"""What the arrays of a board must be: a rule for each, and those that several algorithms share.

A board may be made so that computing fails for whoever rated one certain item: an item vector of 1e25 overflows, an
array that is cut short has no place for it. So every array that a device's part of a task reads has a shape that
follows from the configuration, and limits that no honest board comes near. Rules are of what is public alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedboard.common.algorithms.shared.adaptive_clipping import FARTHEST, ClippedSettings
from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.board import AnyArray, Board

LARGEST_NUMBER = 1e6
"""Bound on the magnitude of a coordinate, a bias or an item weight."""
ROUNDING = 1e-9
"""Relative: how far a bound that is a product may be missed."""
_MOST_USERS = 1e12
_LEAST_WEIGHT = 1e-30
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


def vectors(name: str, board: Board, rank: int, *, needed: bool = True) -> ArrayRule:
    """One vector per item."""
    return ArrayRule(name=name, dtype=_SINGLE, shape=(board.catalogue.n_items, rank), needed=needed)


def number(name: str, low: float, high: float, *, needed: bool = True) -> ArrayRule:
    """One number within its bounds."""
    return ArrayRule(name=name, dtype=_REAL, shape=(1,), low=low, high=high, needed=needed)


def biased_model(board: Board, rank: int) -> tuple[ArrayRule, ArrayRule]:
    """Item factors and item biases."""
    biases = ArrayRule(name="item_biases", dtype=_SINGLE, shape=(board.catalogue.n_items,))
    return (vectors("item_factors", board, rank), biases)


def prepared(board: Board, *, least_count: float = 1.0) -> Iterator[ArrayRule]:
    """What the preparation round of every task puts on the board; counts are at least ``least_count``."""
    per_item = (board.catalogue.n_items,)
    yield ArrayRule(name="item_counts", dtype=_REAL, shape=per_item, low=least_count, high=_MOST_USERS)
    yield ArrayRule(name="item_weights", dtype=_REAL, shape=per_item, low=_LEAST_WEIGHT)
    yield ArrayRule(name="learnt", dtype=_BYTE, shape=per_item, low=0, high=1)


def mean_rating(shared: RatingsConfig) -> tuple[ArrayRule]:
    """The mean of the ratings, on their scale."""
    return (number("mean", shared.rating_low, shared.rating_high),)


def moving_clip_norm(settings: ClippedSettings) -> ArrayRule:
    """A clipping norm that follows a quantile, as far as it may go."""
    low, high = settings.clip_norm / FARTHEST, settings.largest_clip_norm
    return number("clip_norm", low * (1 - ROUNDING), high * (1 + ROUNDING), needed=False)
