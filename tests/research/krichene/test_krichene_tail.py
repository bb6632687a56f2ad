"""Tail against skew: whose settings ran, what a gain is, and what stands beside it."""

from pathlib import Path

import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.simulations import simulate as module
from research.krichene import benchmarks, tail
from research.shared.experiment import Setting


@pytest.fixture(autouse=True)
def without_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a report takes longer than everything else in a run this small; its file says that a run is whole."""

    def write_empty(run: Path) -> Path:
        page = run / "report.html"
        page.touch()
        return page

    monkeypatch.setattr(module, "write_report", write_empty)


def test_a_gain_is_a_share_of_the_rival_in_the_direction_of_the_metric() -> None:
    assert tail.gain(0.9, 1.2, "test_rmse") == pytest.approx(0.25)
    assert tail.gain(0.3, 0.2, "recall@20") == pytest.approx(0.5)
    assert tail.gain(None, 1.0, "test_rmse") is None
    assert tail.gain(0.1, 0.0, "recall@20") is None


def test_without_data_the_family_differs_in_skew_alone() -> None:
    own = Setting(scratch=Path(), on_progress=lambda *_: None)
    family = tail._family(own, Feedback.EXPLICIT, tail.LEVELS)
    sets = [each.synthetic for each in (family.data, *family.more_data) if each is not None]

    assert [one["top_tenth"] for one in sets] == list(tail.LEVELS)
    assert len({tuple(sorted((k, v) for k, v in one.items() if k != "top_tenth")) for one in sets}) == 1


def test_data_sets_are_ordered_by_skew_and_named_apart() -> None:
    def found(top_tenth: float) -> tail.Found:
        return tail.Found(name="made-up", top_tenth=top_tenth, by_recipe={}, rivals={})

    ordered = tail._in_order([found(0.7), found(0.3)])
    assert [(one.name, one.top_tenth) for one in ordered] == [("made-up (1)", 0.3), ("made-up (2)", 0.7)]


def test_lists_are_sliced_within_the_learnt_tenth() -> None:
    lists = benchmarks.BenchmarkAnswer(mean=0.2, deviation=0.0, sliced=(0.0, 0.3), of_head=(0.1, 0.4))
    stars = benchmarks.BenchmarkAnswer(mean=0.9, deviation=0.0, sliced=(1.1, 0.8))

    assert tail._bucketed(lists).sliced == (0.1, 0.4)
    assert tail._bucketed(stars) == stars


@pytest.mark.parametrize(
    ("metric", "recalled", "said"),
    [
        ("test_rmse", (1.2, 1.5), "at least 21.6 %"),
        ("recall@20", (0.3, 0.1), "Best recall on the rarest of these fifths"),
    ],
)
def test_a_sentence_holds_errors_beside_errors_and_lists_beside_lists(
    metric: str, recalled: tuple[float, float], said: str
) -> None:
    mine, rival = (
        benchmarks.BenchmarkAnswer(mean=value, deviation=0.0, sliced=(value, value)) for value in recalled
    )
    by = {"AdaDPALS (mu = 1)": mine, "DPALS (tail)": rival}
    found = tail.Found(name="made-up", top_tenth=0.5, by_recipe={"paper": by}, rivals={})
    told = tail._comparison({1.0: [found]}, (1.0,), metric)

    assert said in told
    assert ("21.6" in told) == (metric == "test_rmse")
    assert ("+20.0 %" if metric == "test_rmse" else "0.300 against 0.100") in told
