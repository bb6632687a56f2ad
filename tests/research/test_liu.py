"""The experiments of Liu et al. on a small set: they run, and say what they must."""

from pathlib import Path

import numpy as np
import pytest

from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.datasets import SyntheticConfig
from fedboard.simulations.drawing.svg import house_style
from research.block_solvers.sgd import SgdConfig, fit_sgd
from research.liu import convergence, speed
from research.liu.catalogue import EXPERIMENTS
from research.liu.ratings import rated
from research.shared.experiment import Setting
from tests.research.few_ratings import setting_of


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return setting_of(tmp_path, SyntheticConfig(n_users=300, n_items=80, mean_ratings_per_user=25))


def test_every_figure_of_the_paper_is_there() -> None:
    stated = {"table-1", "table-2", "algorithm-1", "theorem-2", "section-5-4", "section-6-7"}
    assert {each.figure for each in EXPERIMENTS} == {"1", "2", "3", "4", "5", "6", "7"} | stated
    assert all(each.paper == "liu" for each in EXPERIMENTS)


def test_errors_are_those_of_the_test_ratings(setting: Setting) -> None:
    data = rated(setting)
    model = fit_sgd(data.stream, SgdConfig(rank=4, passes=20))

    assert data.config.feedback is Feedback.EXPLICIT
    assert data.train_error(model) < data.joint_error(model) < data.error(np.full(data.test.n_ratings, 3.0))
    assert data.local_error(model) < data.error(np.full(data.test.n_ratings, 3.0))


def test_convergence_is_traced_pass_by_pass(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convergence, "_PASSES", 4)
    monkeypatch.setattr(convergence, "_OVERFITTING", SgdConfig(rank=16, passes=4))

    with house_style():
        outcome = convergence.figure_6(setting)

    assert {name: len(errors) for name, errors in outcome.numbers["test_rmse"].items()} == {
        "C-SGD": 4,
        "SGLD": 4,
    }
    assert set(outcome.figures) == {"figure-6"}
    assert "Here, on ratings" in outcome.comparison


def test_table_sizes_are_compared_with_fresh_draws(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convergence, "_TABLE_PASSES", 2)

    with house_style():
        outcome = convergence.figure_4(setting)

    assert set(outcome.numbers["rmse"]) == {"100", "300", "1000", "10000", "100000", "1000000", "fresh"}


def test_throughput_is_measured_for_every_layout(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_LAYOUT_RANKS", (16,))

    with house_style():
        outcome = speed.table_2(setting)

    rates = outcome.numbers["ratings_per_second"]["d16"]
    assert set(rates) == {"users one by one", "batches of users", "batches and tiers"}
    assert all(rate > 0 for rate in rates.values())
