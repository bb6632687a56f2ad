"""The experiments of Krichene et al. at tiny size: every figure is drawn from numbers that mean what they say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations import simulate as module
from fedboard.simulations.config import DataConfig
from fedboard.simulations.drawing.svg import house_style
from research.krichene import (
    benchmarks,
    curves,
    neighbour_lists,
    slices,
    statistics,
)
from research.krichene.catalogue import EXPERIMENTS
from research.krichene.exponents import EXPONENTS, as_text
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


def test_the_catalogue_has_every_figure_and_table_of_the_paper() -> None:
    tables = [f"table-{number}" for number in range(1, 5)]
    tails = ["tail", "tail-lists"]
    assert [e.figure for e in EXPERIMENTS] == [*map(str, range(1, 11)), *tables, *tails, "theorem-4-3"]
    assert [e.figure for e in EXPERIMENTS if e.several] == ["4", "7", "8", "table-1", *tails, "theorem-4-3"]
    assert {e.paper for e in EXPERIMENTS} == {"krichene"}


@pytest.mark.slow
def test_trade_off_compares_both_algorithms_with_sampling(setting: Setting) -> None:
    run = curves.trade_off("1", Feedback.EXPLICIT, "P.")
    found = outcome_of(run, replace(setting, epsilons=(5.0,)))

    rmse = found.numbers["test_rmse"]
    assert set(rmse) == {m.label for m in (*benchmarks.STATISTICS, *benchmarks.GRADIENTS)}
    assert all(0.5 < by["5"] < 2.0 for by in rmse.values())
    assert found.numbers["not_private"]["ALS (not private)"] < 2.0
    assert all(set(by) == {"5"} for by in rmse.values())
    assert set(found.figures) == {"figure-1"}
    assert found.settings["configuration"]["privacy"]["delta"] == 1e-5


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


@pytest.mark.slow
def test_slices_overlap_and_lists_share_their_runs(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    few = (slices.COMPARED[2], slices.COMPARED[4], slices.COMPARED[5])
    monkeypatch.setattr(slices, "COMPARED", few)
    setting = replace(setting, epsilons=(2.0,))
    sliced = outcome_of(slices.slices("4", "P.", usual=(1.0,)), setting)
    assert set(sliced.numbers) == {"rmse", "recall", "recall_of_top_tenth"}
    assert set(sliced.numbers["rmse"]["2"][few[0].label]) == {"0", "1", "2", "3", "4"}

    found = outcome_of(slices.overlap, setting)
    assert set(found.numbers["overlap"]) == {m.label for m in few}
    assert all(0.0 <= value <= 1.0 for value in found.numbers["mean"].values())

    lists = outcome_of(neighbour_lists.neighbour_table("3"), setting)
    assert "at epsilon 2" in lists.comparison
    for nearness in ("lists", "lists_by_inner_product"):
        assert len(lists.numbers[nearness]) == 2
        for by_place in lists.numbers[nearness].values():
            assert set(by_place["1"]) == {"ALS", *(m.label for m in neighbour_lists.PRIVATE)}
            assert 1 <= len(by_place) <= 6
    # Long vectors, which popular items have, are near to more items by the inner product.
    counts = lists.numbers["median_count_of_neighbours"]
    assert counts["inner product"]["ALS"] >= counts["cosine"]["ALS"]


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


def test_exponents_are_told_as_fractions() -> None:
    assert [as_text(exponent) for exponent in EXPONENTS] == ["0", "1/8", "1/4", "1/3", "1/2", "1"]
