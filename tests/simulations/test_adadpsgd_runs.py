"""Runs of AdaDPSGD: it learns, repeats bit for bit, books what it says, and takes personal levels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.simulate import simulate

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]


def a_config(
    *, epsilon: float = 5.0, settings: dict[str, Any] | None = None, **others: Any
) -> SimulationConfig:
    privacy = others.pop("privacy", {})
    run = others.pop("run", {})
    return parse_config(
        {
            "algorithm": "adadpsgd",
            "data": {"synthetic": {"n_users": 1500, "n_items": 60, "mean_ratings_per_user": 15.0}},
            "settings": {"rank": 3, "steps": 6, **(settings or {})},
            "privacy": {"epsilon": epsilon, **privacy},
            "run": {"baselines": False, "kernels": "numpy", "evaluate_rounds": False, **run},
            **others,
        }
    )


def last_board(run: Path) -> Board:
    return Board.load(sorted((run / "boards").glob("board-*.board"))[-1])


def test_the_ledger_has_one_event_for_every_release_of_the_plan(tmp_path: Path) -> None:
    config = a_config()
    result = simulate(config, tmp_path / "run")
    task = build_task(config, rating_range=(1.0, 5.0), backend="numpy").task
    planned = {r.name: r.release for requests in task.plan() for r in requests}

    with Ledger.open(tmp_path / "run" / "ledger.sqlite") as ledger:
        events = {str(event["name"]): event for event in ledger.events()}

    assert list(events) == list(planned)
    for name, event in events.items():
        assert event["noise_multiplier"] == planned[name].noise_multiplier
        assert event["l2_bound"] == planned[name].l2_bound
    assert result.certificate is not None


def test_users_with_a_smaller_epsilon_give_less(tmp_path: Path) -> None:
    levels = [{"epsilon": 0.5, "share": 0.9}]
    simulate(a_config(), tmp_path / "all")
    personal = simulate(a_config(privacy={"personal": levels}), tmp_path / "some")

    assert any("0.5" in line for line in personal.certificate.assumptions)
    everybody, fewer = (last_board(tmp_path / name).arrays["item_factors"] for name in ("all", "some"))
    assert np.any(everybody != fewer)
