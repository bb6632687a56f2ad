"""How unevenly made-up items are rated: log-normal popularity, fitted to what is published of a data set.

``--data skewed:ml-10m,top_tenth=0.6`` is the synthetic set with the sizes of MovieLens 10M and 60 % of its ratings
on the top tenth of the items. Drawing without repetition flattens popularity, so weights are found by which the
*expected* counts come out as asked.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import ndtri

from fedboard.common.arrays import FloatArray
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError

PREFIX = "skewed:"
SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # Sizes: Krichene et al. (2023), table 1. At least 20 ratings a user: MovieLens. The top tenth is not
        # in print; 0.7 lies between MovieLens 1M (0.43) and 20M.
        "ml-10m": {
            "n_users": 69_878,
            "n_items": 10_677,
            "mean_ratings_per_user": 143.1,
            "minimum_ratings_per_user": 20,
            "top_tenth": 0.7,
            "most_popular": 0.5,
        },
        # Positives only. Top tenth: the paper, section 5. Most popular: table 3, 47 518 of 116 677 training users.
        "ml-20m": {
            "n_users": 136_677,
            "n_items": 20_108,
            "mean_ratings_per_user": 73.1,
            "minimum_ratings_per_user": 5,
            "top_tenth": 0.86,
            "most_popular": 0.41,
        },
        # At least 20 songs a user and 200 users a song: Liang et al. (2018). The top tenth and the most popular are
        # guesses.
        "msd": {
            "n_users": 571_355,
            "n_items": 41_140,
            "mean_ratings_per_user": 58.9,
            "minimum_ratings_per_user": 20,
            "top_tenth": 0.5,
            "most_popular": 0.15,
            "least_popular": 200 / 571_355,
        },
    }
)
"""Data sets of the papers by name: settings of the synthetic set that give it their statistics. Public."""
SHORT = MappingProxyType(
    {
        "users": "n_users",
        "items": "n_items",
        "mean": "mean_ratings_per_user",
        "minimum": "minimum_ratings_per_user",
    }
)
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


def settings_of(source: str) -> dict[str, Any]:
    """What ``skewed:SHAPE[,KEY=VALUE...]`` means as settings of the synthetic set.

    Raises:
        InputError: no such shape, or no KEY=VALUE.
    """
    shape, *given = source.removeprefix(PREFIX).split(",")
    if shape not in SHAPES:
        raise InputError(
            f"--data {source}: there is no shape {shape!r}; there are {', '.join(SHAPES)}"
            f"{did_you_mean(shape, SHAPES)}, such as skewed:ml-10m,top_tenth=0.5,users=20000"
        )
    return {**SHAPES[shape], **dict(_setting(text, source) for text in given)}


def _setting(text: str, source: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    try:
        read = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        read = None
    if not (key and equals and isinstance(read, int | float)):
        raise InputError(f"--data {source}: {text!r} must be KEY=NUMBER, such as top_tenth=0.5")
    return SHORT.get(key, key), read


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
