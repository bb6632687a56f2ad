"""Made-up ratings with the sizes and the skew that papers print of a data set: ``--data skewed:ml-10m``.

``skewed:ml-10m,top_tenth=0.6`` is the synthetic set with the sizes of MovieLens 10M and 60 % of its ratings on the
top tenth of the items.
"""

import tomllib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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
