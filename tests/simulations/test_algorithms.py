"""Algorithms by name: every preset is valid, and a configuration cannot reach what others decide."""

import math

import pytest

from fedboard.common.algorithms.registry import algorithm_names
from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.simulations.config import parse_config
from fedboard.simulations.runs.calibrated import build_task


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "feedback"),
    [(name, feedback) for feedback in Feedback for name in algorithm_names(feedback)],
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 20.0, 100.0])
def test_every_preset_is_valid_and_spends_its_budget(
    algorithm: str, feedback: Feedback, epsilon: float
) -> None:
    config = parse_config(
        {"algorithm": algorithm, "feedback": feedback.value, "privacy": {"epsilon": epsilon, "delta": 1e-6}}
    )

    built = build_task(config, rating_range=(0.5, 5.0), backend="numpy")

    assert math.isclose(sum(built.shares.values()), 1.0, rel_tol=1e-9)
    spent = epsilon_of(1e-6, mu=compose(built.task.settings.shared.noise_multipliers.values()))
    assert 0.999 * epsilon < spent <= epsilon
    assert {r.name for requests in built.task.plan() for r in requests} == set(built.shares)


@pytest.mark.parametrize(
    "settings", [{"start": "spectral"}, {"curvature": "released"}, {"clip_quantile": 0.5}]
)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_every_form_of_the_residual_task_spends_its_budget(
    settings: dict[str, object], adjacency: str
) -> None:
    privacy = {
        "epsilon": 3.0,
        "delta": 1e-6,
        "adjacency": adjacency,
        "shares": {"moment": 0.05, "clip": 0.01},
    }
    config = parse_config({"algorithm": "residual", "settings": settings, "privacy": privacy})

    built = build_task(config, rating_range=(0.5, 5.0), backend="numpy")

    assert isinstance(built.task, Residual)
    assert math.isclose(sum(built.shares.values()), 1.0, rel_tol=1e-9)
    assert {r.name for requests in built.task.plan() for r in requests} == set(built.shares)
    assert {r.release.adjacency for requests in built.task.plan() for r in requests} == {adjacency}
    spent = epsilon_of(1e-6, mu=compose(built.task.settings.shared.noise_multipliers.values()))
    assert 0.999 * 3.0 < spent <= 3.0
    moment, linear = (built.shares[f"round-1/{part}"] for part in ("moment", "linear"))
    assert moment / linear == pytest.approx(0.05 / 0.95)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"algorithm": "nope"}, "algorithm must be one of adadpals"),
        ({"settings": {"clipnorm": 1.0}}, "unknown key 'clipnorm'"),
        ({"settings": {"noise_multipliers": {"counts": 0.1}}}, "unknown key 'noise_multipliers'"),
        ({"settings": {"adjacency": "replace"}}, "unknown key 'adjacency'"),
        ({"settings": {"rank": "eight"}}, "settings"),
        ({"settings": {"clip_norm": 0.0}}, "clip_norm must be finite and > 0"),
        ({"privacy": {"shares": {"bias": 0.9, "counts": 0.2}}}, "must be < 1"),
        ({"algorithm": "residual", "settings": {"label_bound": 1.0}}, "unknown key 'label_bound'"),
        ({"algorithm": "residual", "settings": {"public_seed": 1}}, "unknown key 'public_seed'"),
        ({"algorithm": "residual", "settings": {"start": "warm"}}, "settings"),
        ({"algorithm": "residual", "settings": {"clip_norm": 50.0}}, "clip_norm must be at most"),
        ({"algorithm": "residual", "privacy": {"shares": {"gram": 0.1}}}, "unknown key 'gram'"),
        ({"algorithm": "residual", "privacy": {"shares": {"moment": 1.0}}}, "shares.moment must be in"),
    ],
)
def test_what_cannot_be_used_is_named(raw: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_task(parse_config(raw), rating_range=(1.0, 5.0), backend="numpy")
