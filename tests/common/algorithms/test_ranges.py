"""Each number that somebody may set has its range, and whoever leaves it is told which number, and which range."""

import math
import re
from collections import defaultdict
from typing import Any

import pytest

from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig, BudgetShares
from fedboard.common.algorithms.adadpsgd.config import AdaDpsgdConfig, AdaDpsgdShares
from fedboard.common.algorithms.bias_private.algorithm import BiasConfig, BiasShares
from fedboard.common.algorithms.langevin.config import LangevinConfig, LangevinShares
from fedboard.common.algorithms.registry import installed
from fedboard.common.algorithms.representation.config import RepresentationConfig, RepresentationShares
from fedboard.common.algorithms.residual.config import ResidualConfig, ResidualShares
from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.algorithms.topk.config import TopKConfig, TopKShares
from fedboard.common.checks import _ranges_of
from fedboard.common.errors import InputError

POSITIVE, NOT_NEGATIVE, SHARE, FRACTION = "finite and > 0", "finite and >= 0", "in (0, 1)", "in [0, 1]"
COUNT, RANK, ROUNDS = "a whole number >= 1", *(f"a whole number from 1 to {n}" for n in (512, 10_000))
RANGES: dict[type[Any], dict[str, str]] = {
    RatingsConfig: {COUNT: "count_cap", POSITIVE: "mean_cap"},
    AdaDpalsConfig: {
        RANK: "rank",
        ROUNDS: "rounds",
        FRACTION: "weight_exponent",
        COUNT: "items_per_user",
        POSITIVE: "mean_budget clip_norm clip_rate label_bound user_bias_ridge user_ridge item_ridge first_norm",
        SHARE: "clip_quantile",
        NOT_NEGATIVE: "unobserved_weight item_unobserved_weight",
        "in (0, 1]": "head_fraction",
    },
    BudgetShares: {SHARE: "mean counts users bias_counts bias_sums clip gram quadratic"},
    AdaDpsgdConfig: {
        ROUNDS: "steps",
        POSITIVE: "gradient_clip vector_bound rate radius first_norm",
        COUNT: "steps_per_solve",
    },
    AdaDpsgdShares: {SHARE: "mean counts users gram"},
    BiasConfig: {POSITIVE: "user_ridge", SHARE: "moments_share", "in [0.05, 1]": "first_clip second_clip"},
    BiasShares: {SHARE: "counts second"},
    LangevinConfig: {
        ROUNDS: "steps",
        COUNT: "most_ratings averaged_steps",
        POSITIVE: "largest_weight clip_norm likelihood precision temperature step_limit",
        NOT_NEGATIVE: "decay",
    },
    LangevinShares: {SHARE: "mean counts"},
    ResidualConfig: {
        RANK: "rank",
        ROUNDS: "rounds",
        FRACTION: "weight_exponent bias_memory",
        POSITIVE: "clip_norm clip_rate bias_clip_norm vector_bound bias_scale user_ridge final_user_ridge "
        "user_bias_ridge prior_ridge noise_variance prior_inflation step",
        SHARE: "clip_quantile moments_share",
        NOT_NEGATIVE: "unobserved_weight item_unobserved_weight",
        "in (0, 1]": "head_fraction",
        "in [0, 1)": "iterate_memory",
    },
    ResidualShares: {SHARE: "users counts weighted_counts bias spectral moment clip ridges curvature"},
    TopKConfig: {
        "a whole number from 1 to 511": "rank start_width kernel_rank",
        "in (0, 1]": "head_fraction",
        FRACTION: "feature_exponent gauge_exponent",
        SHARE: "count_share",
        POSITIVE: "energy_bound diagonal",
    },
    TopKShares: {SHARE: "users counts start energies"},
    RepresentationConfig: {
        COUNT: "rank",
        POSITIVE: "clip_norm example_bound response_bound vector_bound user_ridge",
    },
    RepresentationShares: {SHARE: "initialisation curvature"},
}
OUTSIDE: dict[str, tuple[Any, ...]] = {
    POSITIVE: (0.0, -1.0, math.inf, math.nan),
    NOT_NEGATIVE: (-0.1, math.inf, math.nan),
    SHARE: (0.0, 1.0, math.nan),
    FRACTION: (-0.1, 1.1, math.nan),
    "in [0, 1)": (-0.1, 1.0, math.nan),
    "in (0, 1]": (0.0, 1.1, math.nan),
    "in [0.05, 1]": (0.04, 1.1, math.nan),
    COUNT: (0, 1.5, True),
    RANK: (0, 513, 1.5),
    ROUNDS: (0, 10_001, True),
    "a whole number from 1 to 511": (0, 512, 1.5),
}


@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.__name__)
def test_every_number_has_the_range_that_is_listed_here(kind: type[Any]) -> None:
    stated = defaultdict(set)
    for name, allowed, _ in _ranges_of(kind):
        stated[allowed.rule].add(name)

    assert stated == {rule: set(names.split()) for rule, names in RANGES[kind].items()}


def test_every_algorithm_is_listed_here() -> None:
    kinds = {kind for algorithm in installed() for kind in (algorithm.settings, algorithm.shares)}

    assert {kind for kind in kinds if _ranges_of(kind)} <= RANGES.keys()


@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.__name__)
def test_a_number_out_of_its_range_is_named_with_the_range(kind: type[Any]) -> None:
    prefix = "shares." if kind.__name__.endswith("Shares") else ""
    for rule, names in RANGES[kind].items():
        for name in names.split():
            for value in OUTSIDE[rule]:
                with pytest.raises(
                    InputError, match=re.escape(f"{prefix}{name} must be {rule}, got {value}")
                ):
                    kind(**{name: value})


def test_none_is_allowed_where_the_field_says_so_alone() -> None:
    assert ResidualConfig(clip_quantile=None).clip_quantile is None
    with pytest.raises(InputError, match="clip_norm must be finite and > 0, got None"):
        ResidualConfig(clip_norm=None)  # type: ignore[arg-type]
