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
        settings={"rounds": 4, "item_ridge": 80.0, "user_ridge": 3.0, "label_bound": 1.5, "clip_norm": 0.5}
    ),
    5.0: Preset(
        settings={"rounds": 4, "item_ridge": 30.0, "user_ridge": 3.0, "label_bound": 2.0, "clip_norm": 0.6}
    ),
    20.0: Preset(
        settings={"rounds": 6, "item_ridge": 20.0, "user_ridge": 3.0, "label_bound": 2.5, "clip_norm": 0.8}
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
