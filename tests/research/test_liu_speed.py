"""The timed figures of Liu et al. and figure 7 at tiny size: they count what they say."""

from pathlib import Path

import pytest

from fedboard.simulations.datasets import SyntheticConfig
from fedboard.simulations.drawing.svg import house_style
from research.liu import privacy, speed
from research.shared.experiment import Setting
from tests.research.few_ratings import setting_of


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return setting_of(tmp_path, SyntheticConfig(n_users=120, n_items=40, mean_ratings_per_user=12))


def test_curves_of_rank_and_time_are_drawn_for_each_solver(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "_CURVE_RANKS", (4,))
    monkeypatch.setattr(speed, "_PASSES", 3)
    with house_style():
        found = speed.figure_2(setting)

    curves = found.numbers["convergence"]["d4"]
    assert set(curves) == {"C-SGD", "SGLD", "ALS"}
    assert len(curves["C-SGD"]["rmse"]) == 3
    for name in ("C-SGD", "SGLD"):
        assert len(curves[name]["rmse"]) == len(curves[name]["seconds"])
        assert curves[name]["seconds"] == sorted(curves[name]["seconds"])
    assert set(found.figures) == {"figure-2"}


def test_rates_grow_from_counted_ratings_and_seconds(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "_THREADS_RANK", 16)
    monkeypatch.setattr(speed, "_TIMED_RANKS", (4, 16))
    monkeypatch.setattr(speed, "_thread_counts", lambda workers: [1, 2])
    timed: list[float] = []
    real = speed._timed_passes

    def passes(*arguments: object) -> dict[str, float]:
        found = real(*arguments)  # type: ignore[arg-type]
        timed.append(found["C-SGD"])
        return found

    monkeypatch.setattr(speed, "_timed_passes", passes)
    with house_style():
        threads, ranks = speed.figure_3(setting), speed.figure_5(setting)

    rates = threads.numbers["ratings_per_second"]["C-SGD"]
    assert rates["1"] == pytest.approx(threads.settings["ratings"] / timed[0])
    assert set(rates) == {"1", "2"}
    seconds = ranks.numbers["seconds_of_15_passes"]
    assert seconds["d4"]["C-SGD"] == pytest.approx(15 * timed[2])
    assert set(seconds) == {"d4", "d16"}


@pytest.mark.slow
def test_both_readings_of_epsilon_are_drawn(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "_ASYMPTOTIC", (250.0, 250 / 0.07))
    monkeypatch.setattr(privacy, "FINITE", (5.0,))
    monkeypatch.setattr(privacy, "CHAIN", {**privacy.CHAIN, "passes": 3, "rank": 4})
    with house_style():
        found = privacy.figure_7(setting)

    assert set(found.numbers["asymptotic"]) == {"250", "3571.43"}
    assert found.numbers["asymptotic"]["250"]["kind"] == "asymptotic"
    assert found.numbers["finite_step"]["5"]["kind"] == "finite-step"
    assert found.numbers["finite_step"]["5"]["rating_epsilon"] > 5.0
    assert 0.3 < found.numbers["als_rmse"] < 2.0
