"""Each number that somebody may set has its range, and whoever leaves it is told which number, and which range."""

import math
import re
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from fedboard.common.algorithms.registry import installed
from fedboard.common.algorithms.representation.config import RepresentationConfig, RepresentationShares
from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.checks import _ranges_of
from fedboard.common.errors import InputError

KINDS = [
    RatingsConfig,
    RepresentationConfig,
    RepresentationShares,
    *(kind for algorithm in installed() for kind in (algorithm.settings, algorithm.shares)),
]
ANY = {"rating_low", "rating_high", "public_seed", "device_seed", "round_growth", "step_growth"}
ANY |= {"user_ridge_exponent", "item_ridge_exponent"}
"""Numbers of which none is refused by itself."""
LATER = {"rounds", "cohorts"}
"""Refused by a rule of more than one number, or of a few values."""
OUTSIDE: dict[str, tuple[Any, ...]] = {
    "finite and > 0": (0.0, -1.0, math.inf, math.nan),
    "finite and >= 0": (-0.1, math.inf, math.nan),
    "in (0, 1)": (0.0, 1.0, math.nan),
    "in [0, 1]": (-0.1, 1.1, math.nan),
    "in [0, 1)": (-0.1, 1.0, math.nan),
    "in (0, 1]": (0.0, 1.1, math.nan),
    "in [0.05, 1]": (0.04, 1.1, math.nan),
    "a whole number >= 1": (0, 1.5, True),
    "a whole number from 1 to 512": (0, 513, 1.5),
    "a whole number from 1 to 511": (0, 512, 1.5),
    "a whole number from 1 to 10000": (0, 10_001, True),
}


def numbers_of(kind: type[Any]) -> set[str]:
    hints = get_type_hints(kind)
    return {one.name for one in fields(kind) if hints[one.name] in (int, float, int | None, float | None)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_number_has_a_range(kind: type[Any]) -> None:
    ranged = {name for name, _, _ in _ranges_of(kind)}
    builds_on = (
        {name for known in KINDS for name, _, _ in _ranges_of(known)} if hasattr(kind, "model") else set()
    )

    assert numbers_of(kind) - ranged - ANY - LATER - builds_on == set()
    bounds = {
        allowed.rule
        for name, allowed, _ in _ranges_of(kind)
        if name.endswith(("_bound", "clip_norm", "_cap", "gradient_clip"))
    }
    assert bounds <= {"finite and > 0", "a whole number >= 1"}  # from a hostile server, too
    if "Shares" in kind.__name__:
        assert {allowed.rule for _, allowed, _ in _ranges_of(kind)} <= {"in (0, 1)"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_number_out_of_its_range_is_named_with_the_range(kind: type[Any]) -> None:
    prefix = "shares." if kind.__name__.endswith("Shares") else ""
    for name, allowed, _ in _ranges_of(kind):
        for value in OUTSIDE[allowed.rule]:
            told = re.escape(f"{prefix}{name} must be {allowed.rule}, got {value}")
            with pytest.raises(InputError, match=told):
                kind(**{name: value})


def test_none_is_allowed_where_the_field_says_so_alone() -> None:
    assert ResidualConfig(clip_quantile=None).clip_quantile is None
    with pytest.raises(InputError, match="clip_norm must be finite and > 0, got None"):
        ResidualConfig(clip_norm=None)  # type: ignore[arg-type]
