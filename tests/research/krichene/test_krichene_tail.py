"""Tail against skew: whose settings ran, what a gain is, and what stands beside it."""

from pathlib import Path

import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from research.krichene import benchmarks, tail
from research.shared.experiment import Setting


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


def test_lists_are_sliced_within_the_learnt_tenth() -> None:
    lists = benchmarks.BenchmarkAnswer(mean=0.2, deviation=0.0, sliced=(0.0, 0.3), of_head=(0.1, 0.4))
    stars = benchmarks.BenchmarkAnswer(mean=0.9, deviation=0.0, sliced=(1.1, 0.8))

    assert tail._bucketed(lists).sliced == (0.1, 0.4)
    assert tail._bucketed(stars) == stars
