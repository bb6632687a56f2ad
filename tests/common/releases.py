"""A release to change things in, for tests that need one and care about a few of its fields."""

from typing import Any

from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease

_USUAL: dict[str, Any] = {
    "name": "numbers",
    "rows": 1,
    "width": 4,
    "layout": "vector",
    "grid_step": 1.0,
    "l2_bound": 1 << 12,
    "same_sign": False,
    "adjacency": Adjacency.ADD_REMOVE,
    "noise_multiplier": 1.0,
    "covers": "made up",
}


def a_release(**fields: Any) -> GaussianRelease:
    """A sum of one row of four numbers, with these fields instead."""
    return GaussianRelease(**{**_USUAL, **fields})
