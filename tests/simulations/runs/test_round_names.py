"""Rounds are called the same wherever they are shown, and as ``settings.rounds`` counts them."""

from typing import Any

import pytest

from fedboard.simulations.config import parse_config
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.directory import round_names, rounds_told


@pytest.mark.parametrize(
    ("algorithm", "settings", "told"),
    [
        ("residual", {"rounds": 3}, "preparation, biases and 3 rounds"),
        (
            "residual",
            {"rounds": 3, "start": "spectral", "clip_quantile": 0.5},
            "preparation, biases, pairs and 3 rounds",
        ),
        ("adadpals", {"rounds": 1}, "preparation and 1 round"),
        ("adadpsgd", {"steps": 2}, "preparation and 2 steps"),
        ("langevin", {"steps": 2}, "preparation and 2 steps"),
    ],
)
def test_a_plan_tells_the_rounds_that_the_settings_ask_for(
    algorithm: str, settings: dict[str, Any], told: str
) -> None:
    config = parse_config({"algorithm": algorithm, "settings": settings})
    plan = build_task(config, rating_range=(1.0, 5.0), backend="numpy").task.plan()

    names = round_names(plan)

    assert rounds_told(names) == told
    assert len(names) == len(plan)
    for name, requests in zip(names, plan, strict=True):
        of_round = {request.release.name.split("/")[0] for request in requests}
        assert name == "preparation" or name == "biases" or of_round == {name.replace(" ", "-")}
