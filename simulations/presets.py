"""Tuned defaults of the private algorithms, by feedback and epsilon.

Explicit feedback was tuned on ``ml-1m-x12`` (72 480 users, see docs/guide/tuning.md) at epsilon 1, 5 and 20 with
delta 1e-5; an epsilon between takes the nearest of the three on the log scale. They are hyper-parameters:
choosing them on private data would be a release of its own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedboard.common.tasks.adadpals_config import Feedback


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Settings and budget shares that were tuned together."""

    settings: Mapping[str, Any]
    shares: Mapping[str, float] = field(default_factory=dict)


_EXPLICIT: Mapping[float, Preset] = {
    1.0: Preset(
        settings={
            "rounds": 4,
            "clip_norm": 0.35,
            "label_bound": 1.0,
            "user_ridge": 1.8,
            "item_ridge": 90.0,
            "weight_exponent": 0.25,
        },
        shares={"quadratic": 0.2, "round_growth": 3.0},
    ),
    5.0: Preset(
        settings={
            "rounds": 6,
            "clip_norm": 0.6,
            "label_bound": 1.6,
            "user_ridge": 1.8,
            "user_ridge_exponent": 0.1,
            "item_ridge": 72.0,
            "item_ridge_exponent": 0.5,
            "weight_exponent": 1 / 3,
        },
        shares={"quadratic": 0.3, "round_growth": 2.0},
    ),
    20.0: Preset(
        settings={
            "rounds": 8,
            "clip_norm": 1.1,
            "label_bound": 2.0,
            "user_ridge": 1.1,
            "item_ridge": 20.0,
            "weight_exponent": 0.4,
        },
        shares={"quadratic": 0.3, "round_growth": 1.0},
    ),
}

_IMPLICIT: Mapping[float, Preset] = {
    5.0: Preset(
        settings={
            "rank": 16,
            "rounds": 3,
            "unobserved_weight": 0.1,
            "item_unobserved_weight": 0.1,
            "label_bound": 1.0,
        }
    ),
}


def preset(algorithm: str, feedback: Feedback, epsilon: float) -> Preset:
    """The tuned defaults nearest to this epsilon; the sampled weightings share those of AdaDPALS."""
    table = _EXPLICIT if feedback is Feedback.EXPLICIT else _IMPLICIT
    nearest = min(table, key=lambda known: abs(math.log(known / epsilon)))
    return table[nearest]


__all__ = ["Preset", "preset"]
