"""How unevenly made-up items are rated: log-normal popularity, fitted to a share of the ratings on the top tenth.

Drawing without repetition flattens popularity, so weights are found by which the *expected* counts come out as
asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError

_GRID, _STEPS, _ROUNDS = 400, 30, 60
_WIDEST, _HIGHEST = 8.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularityShape:
    """What is asked of the popularity of the items. Public."""

    top_tenth: float
    """Share of the ratings on the most popular tenth; in (0.1, 1)."""
    most_popular: float
    """Share of the users who rate the most popular item; in (0, 1)."""
    least_popular: float
    """Share of the users expected to rate the least popular item; 0: what its tail gives."""
    rated: tuple[float, ...]
    """Share of the catalogue that users rate, at equal parts of them."""
    n_items: int
    """Size of the catalogue."""


def popularity_weights(shape: PopularityShape) -> FloatArray:
    """Weights to draw items by, most popular first; float64, shape (n_items,), > 0.

    Users draw without repetition, each as many as she rates: an item of weight q is in a list of k with probability
    1 - exp(-t_k q). Weights are exp(spread z) at the quantiles z of the normal distribution, bent at a ceiling and
    lifted by a floor; spread and ceiling are found by bisection.

    Raises:
        InputError: no popularity gives that skew with so many ratings for each item.
    """
    spread, ceiling = _fitted(shape)
    found: FloatArray = _weights(
        _quantiles(shape.n_items), spread, ceiling, _times(shape, spread, ceiling)[1]
    )
    return found


@lru_cache(maxsize=8)
def _fitted(shape: PopularityShape) -> tuple[float, float]:
    """Spread and ceiling of the logarithms."""
    low, high = 0.0, _WIDEST
    if not _top_tenth(shape, low) < shape.top_tenth < _top_tenth(shape, high):
        raise InputError(
            f"synthetic data: top_tenth = {shape.top_tenth:g} cannot be had with most_popular = "
            f"{shape.most_popular:g}, so many ratings for each item and such a floor; change one of them"
        )
    for _ in range(_STEPS):
        spread = (low + high) / 2
        low, high = (spread, high) if _top_tenth(shape, spread) < shape.top_tenth else (low, spread)
    return high, _ceiling(shape, high)


def _top_tenth(shape: PopularityShape, spread: float) -> float:
    """Expected share of the ratings on the most popular tenth of the items."""
    ceiling = _ceiling(shape, spread)
    times, floor = _times(shape, spread, ceiling)
    rated = _rated(_weights(_quantiles(_GRID), spread, ceiling, floor), times)
    return float(rated[: round(0.1 * _GRID)].sum() / rated.sum())


def _ceiling(shape: PopularityShape, spread: float) -> float:
    """That by which the most popular item gets its share of the users, or the highest if it does not."""
    low, high = -_HIGHEST, _HIGHEST
    top = _quantiles(shape.n_items)[:1]
    for _ in range(_STEPS):
        ceiling = (low + high) / 2
        times, floor = _times(shape, spread, ceiling)
        below = _rated(_weights(top, spread, ceiling, floor), times)[0] < shape.most_popular
        low, high = (ceiling, high) if below else (low, ceiling)
    return high


def _times(shape: PopularityShape, spread: float, ceiling: float) -> tuple[list[float], float]:
    """The t of each part of the users, and the floor under the weights."""
    floor = 0.0
    for _ in range(1 if shape.least_popular == 0 else 3):
        weights = _weights(_quantiles(_GRID), spread, ceiling, floor)
        times = [_time_of(weights, share * _GRID) for share in shape.rated]
        floor = shape.least_popular / float(
            np.mean(times)
        )  # a small share is nearly proportional to the weight
    return times, floor


def _time_of(weights: FloatArray, drawn: float) -> float:
    """Time t at which the sum of 1 - exp(-t q) is ``drawn``, by Newton's method from below."""
    time = drawn / float(weights.sum())
    for _ in range(_ROUNDS):
        left = np.exp(-time * weights)
        missing = drawn - float((1.0 - left).sum())
        if missing <= 1e-6 * drawn:
            break
        time += missing / float((weights * left).sum())
    return time


def _rated(weights: FloatArray, times: Sequence[float]) -> FloatArray:
    """Share of the users who rate each item."""
    found: FloatArray = np.mean([1.0 - np.exp(-time * weights) for time in times], axis=0)
    return found


def _weights(normal: FloatArray, spread: float, ceiling: float, floor: float) -> FloatArray:
    """exp(spread z), bent at exp(ceiling), and a floor."""
    found: FloatArray = 1.0 / (np.exp(-spread * normal) + np.exp(-ceiling)) + floor
    return found


def _quantiles(number: int) -> FloatArray:
    """Of the normal distribution, largest first."""
    found: FloatArray = -ndtri((np.arange(number) + 0.5) / number)
    return found
