"""Tuned defaults of the private algorithms, by feedback and epsilon.

They are hyper-parameters: choosing them by looking at private ratings would be a release of its own. What they
were tuned on is stated here and in docs/guide/accuracy.md; an epsilon between takes the nearest on the log scale.

* Explicit feedback: test ratings of ``ml-1m-x12`` (72 480 users resampled from MovieLens 1M), seeds 0 to 2, delta
  1e-5.
* Implicit feedback: validation users of MovieLens 1M (4 832 training users), seed 0, delta 1e-5.

AdaDPSGD's are in ``fedboard.common.tasks.adadpsgd.presets``.
"""

import math
from collections.abc import Mapping

from fedboard.common.tasks.adadpsgd.presets import GRADIENT_EXPLICIT, GRADIENT_IMPLICIT, GRADIENT_SAMPLED
from fedboard.common.tasks.langevin.task import Langevin
from fedboard.common.tasks.residual.task import Residual
from fedboard.common.tasks.shared.preset import Preset
from fedboard.common.tasks.shared.ratings_config import Feedback

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
            "user_ridge": 1.6,
            "item_ridge": 40.0,
            "item_ridge_exponent": 0.5,
            "weight_exponent": 1 / 3,
        },
        shares={"quadratic": 0.3, "round_growth": 2.0},
    ),
}

_EXPLICIT_SAMPLED: Mapping[tuple[str, float], Preset] = {
    ("dpals-tail", 1.0): Preset(settings={"items_per_user": 100}, shares={"counts": 0.06}),
    ("dpals-tail", 5.0): Preset(settings={"items_per_user": 100}, shares={"counts": 0.06}),
    ("dpals-tail", 20.0): Preset(
        settings={"items_per_user": 200, "item_ridge": 28.0, "user_ridge": 1.1}, shares={"counts": 0.06}
    ),
    ("dpals-uniform", 1.0): Preset(
        settings={"items_per_user": 200, "item_ridge": 45.0}, shares={"counts": 0.06}
    ),
    ("dpals-uniform", 5.0): Preset(
        settings={"items_per_user": 200, "item_ridge": 36.0}, shares={"counts": 0.06}
    ),
    ("dpals-uniform", 20.0): Preset(
        settings={"items_per_user": 200, "item_ridge": 14.0, "user_ridge": 1.1}, shares={"counts": 0.06}
    ),
}
"""What the sampled weightings like better, found by the same search around the settings above."""

_IMPLICIT: Mapping[float, Preset] = {
    1.0: Preset(
        settings={
            "rank": 16,
            "rounds": 5,
            "clip_norm": 0.1,
            "label_bound": 1.0,
            "user_ridge": 1.1,
            "item_ridge": 340.0,
            "unobserved_weight": 0.36,
            "item_unobserved_weight": 0.0066,
            "head_fraction": 0.1,
            "weight_exponent": 0.0,
        },
        shares={"counts": 0.03, "gram": 0.1, "quadratic": 0.4, "round_growth": 2.0},
    ),
    5.0: Preset(
        settings={
            "rank": 32,
            "rounds": 3,
            "clip_norm": 0.165,
            "label_bound": 1.0,
            "user_ridge": 0.68,
            "item_ridge": 270.0,
            "unobserved_weight": 0.41,
            "item_unobserved_weight": 0.275,
            "head_fraction": 0.2,
            "weight_exponent": 0.0,
        },
        shares={"counts": 0.03, "gram": 0.02, "quadratic": 0.4},
    ),
    20.0: Preset(
        settings={
            "rank": 32,
            "rounds": 4,
            "clip_norm": 0.36,
            "label_bound": 1.0,
            "user_ridge": 0.26,
            "item_ridge": 230.0,
            "unobserved_weight": 0.37,
            "item_unobserved_weight": 0.234,
            "head_fraction": 0.4,
            "weight_exponent": 0.0,
        },
        shares={"counts": 0.03, "gram": 0.02, "quadratic": 0.4},
    ),
}


_RESIDUAL: Mapping[float, Preset] = {
    1.0: Preset(
        settings={
            "rank": 6,
            "rounds": 6,
            "clip_norm": 0.6,
            "bias_clip_norm": 0.6,
            "vector_bound": 1.1,
            "bias_scale": 0.7,
            "user_ridge": 2.0,
            "weight_exponent": 0.2,
            "iterate_memory": 0.2,
        },
        shares={"bias": 0.02, "round_growth": 1.5},
    ),
    5.0: Preset(
        settings={
            "rank": 8,
            "rounds": 9,
            "clip_norm": 0.75,
            "bias_clip_norm": 0.7,
            "vector_bound": 1.1,
            "bias_scale": 0.7,
            "user_ridge": 4.0,
            "weight_exponent": 0.2,
            "iterate_memory": 0.2,
        },
        shares={"bias": 0.04},
    ),
    20.0: Preset(
        settings={
            "rank": 8,
            "rounds": 12,
            "clip_norm": 0.85,
            "bias_clip_norm": 0.7,
            "vector_bound": 1.1,
            "bias_scale": 0.7,
            "user_ridge": 4.0,
            "weight_exponent": 0.2,
            "iterate_memory": 0.2,
        },
        shares={"bias": 0.04, "round_growth": 1.5},
    ),
}


_RESIDUAL_IMPLICIT: Mapping[float, Preset] = {
    1.0: Preset(
        settings={
            "rank": 8,
            "rounds": 5,
            "head_fraction": 0.06,
            "clip_norm": 0.35,
            "vector_bound": 1.0,
            "user_ridge": 0.05,
            "user_ridge_exponent": 0.0,
            "final_user_ridge": 0.3,
            "unobserved_weight": 0.4,
            "item_unobserved_weight": 0.3,
            "weight_exponent": 0.1,
            "count_cap": 50,
            "step": 0.7,
            "prior_inflation": 1.5,
            "noise_variance": 0.3,
            "prior_ridge": 2.0,
        },
        shares={"counts": 0.2, "weighted_counts": 0.02, "moment": 0.1, "round_growth": 0.5},
    ),
    5.0: Preset(
        settings={
            "rank": 20,
            "rounds": 4,
            "head_fraction": 0.2,
            "clip_norm": 0.5,
            "vector_bound": 1.0,
            "user_ridge": 0.05,
            "user_ridge_exponent": 0.0,
            "final_user_ridge": 0.3,
            "unobserved_weight": 0.4,
            "item_unobserved_weight": 0.5,
            "weight_exponent": 0.1,
            "count_cap": 50,
            "step": 0.7,
            "prior_inflation": 1.5,
            "noise_variance": 0.3,
            "prior_ridge": 2.0,
        },
        shares={"counts": 0.05, "weighted_counts": 0.02, "moment": 0.1, "round_growth": 0.5},
    ),
    20.0: Preset(
        settings={
            "rank": 32,
            "rounds": 4,
            "head_fraction": 0.3,
            "clip_norm": 0.5,
            "vector_bound": 1.2,
            "user_ridge": 0.3,
            "user_ridge_exponent": 0.25,
            "unobserved_weight": 0.9,
            "item_unobserved_weight": 0.5,
            "weight_exponent": 0.1,
            "count_cap": 50,
            "noise_variance": 0.6,
            "prior_ridge": 2.0,
        },
        shares={"counts": 0.03, "weighted_counts": 0.05, "moment": 0.05, "round_growth": 0.0},
    ),
}


_LANGEVIN: Mapping[float, Preset] = {
    1.0: Preset(settings={"likelihood": 0.1, "precision": 10.0, "averaged_steps": 5}),
    5.0: Preset(settings={}),
    20.0: Preset(
        settings={
            "steps": 28,
            "averaged_steps": 6,
            "precision": 25.0,
            "step_limit": 1.5,
            "bias_scale": 0.4,
            "decay": 0.1,
        }
    ),
}


def preset(algorithm: str, feedback: Feedback, epsilon: float) -> Preset:
    """The tuned defaults of this algorithm nearest to this epsilon."""
    table = _EXPLICIT if feedback is Feedback.EXPLICIT else _IMPLICIT
    if algorithm == Residual.NAME:
        table = _RESIDUAL if feedback is Feedback.EXPLICIT else _RESIDUAL_IMPLICIT
    if algorithm.startswith(("adadpsgd", "dpsgd")):
        table = GRADIENT_EXPLICIT if feedback is Feedback.EXPLICIT else GRADIENT_IMPLICIT
    if algorithm == Langevin.NAME:
        table = _LANGEVIN
    nearest = min(table, key=lambda known: abs(math.log(known / epsilon)))
    found = table[nearest]
    own = _EXPLICIT_SAMPLED.get((algorithm, nearest)) if feedback is Feedback.EXPLICIT else None
    if algorithm.startswith("dpsgd"):
        own = GRADIENT_SAMPLED
    if own is None:
        return found
    return Preset(settings={**found.settings, **own.settings}, shares={**found.shares, **own.shares})


__all__ = ["Preset", "preset"]
