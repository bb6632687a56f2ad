"""The experiments of Krichene et al. at tiny size: every figure is drawn from numbers that mean what they say."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.simulations import simulate as module
from fedboard.simulations.config import DataConfig
from research.krichene import (
    benchmarks,
    curves,
    statistics,
)
from research.shared.drawing import house_style
from research.shared.experiment import Outcome, Setting
from research.shared.ratings import data_of

N_USERS, N_ITEMS = 150, 30


@pytest.fixture(autouse=True)
def without_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a report takes longer than everything else in a run this small."""
    monkeypatch.setattr(module, "write_report", lambda run: run / "report.html")


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """One seed on a made-up table with a popular head."""
    rng = np.random.default_rng(0)
    rated = rng.random((N_USERS, N_ITEMS)) < np.linspace(0.9, 0.1, N_ITEMS)
    users, items = np.nonzero(rated)
    ratings = rng.integers(3, 6, users.size).astype(np.float32)
    np.savez(
        tmp_path / "made-up.npz",
        user=users.astype(np.int32),
        item=items.astype(np.int32),
        rating=ratings,
        item_id=np.arange(N_ITEMS, dtype=np.int32),
    )
    (tmp_path / "scratch").mkdir()
    return Setting(
        data=DataConfig(source=str(tmp_path / "made-up.npz")),
        seeds=1,
        scratch=tmp_path / "scratch",
        on_progress=lambda phase, done, total: None,
    )


def outcome_of(run: Callable[[Setting], Outcome], setting: Setting) -> Outcome:
    with house_style():
        found = run(setting)
    assert "made-up" in found.comparison
    return found


@pytest.mark.slow
def test_exponents_are_those_that_runs_were_made_with(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "EXPONENTS", (0.0, 0.5))
    found = outcome_of(curves.exponent_curves("9", Feedback.IMPLICIT, "P.", usual=(5.0,)), setting)

    assert set(found.numbers["recall@20"]["AdaDPSGD"]["5"]) == {"0", "1/2"}
    bench = benchmarks.Benchmark(setting, Feedback.IMPLICIT)
    board = bench.board(benchmarks.with_exponent(benchmarks.GRADIENTS[0], 0.5), 5.0, 0)
    assert board.config["weight_exponent"] == 0.5
    assert board.certificate is not None
    assert board.certificate["claim"]["delta"] == pytest.approx(1 / N_USERS)


def test_the_skew_of_the_items_is_read_off_the_data(setting: Setting) -> None:
    found = outcome_of(statistics.task_skew, setting)

    shares = found.numbers["curve"]["made-up"]
    assert shares[0] == 0.0
    assert shares[-1] == pytest.approx(1.0)
    assert np.all(np.diff(shares) >= 0)
    assert found.numbers["share_of_top_tenth"]["made-up"] > 0.1
    assert found.numbers["share_of_data"]["made-up"]["top 10%"] == pytest.approx(
        found.numbers["share_of_top_tenth"]["made-up"]
    )
    counts = found.numbers["sorted_counts"]["made-up"]
    assert sorted(counts, reverse=True) == counts


def test_without_data_of_the_user_the_nearest_set_is_taken(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = Setting(seeds=1, scratch=tmp_path, on_progress=setting.on_progress)
    monkeypatch.delenv("FEDBOARD_DATA", raising=False)
    assert data_of(own).source == "synthetic"
    (tmp_path / "ml-1m").mkdir()
    monkeypatch.setenv("FEDBOARD_DATA", str(tmp_path))
    assert data_of(own).source == str(tmp_path / "ml-1m")
