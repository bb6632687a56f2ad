"""A metric and a baseline of one's own: from a file, and from another package by its entry points."""

import os
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.data.stream import HeldStream
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation import evaluation, split_blocks
from fedboard.simulations.evaluation.evaluation import judge
from fedboard.simulations.evaluation.metrics import registry
from fedboard.simulations.evaluation.metrics.registry import metric_names, metrics_of
from fedboard.simulations.evaluation.references import (
    Fitting,
    baseline_of,
    every_reference,
    fit_reference,
    is_reference,
)
from fedboard.simulations.problem import streamed_problem
from fedboard.simulations.runs.calibrated import load_any
from fedboard.simulations.sweeps.cells import shared_problem
from tests.simulations.engine.conftest import some_ratings

METRIC = """
from functools import partial
import numpy as np
from fedboard.simulations.evaluation.metrics.metric import Better, RatingMetric
from fedboard.simulations.evaluation.metrics.rating import ErrorMeans

def fourth(errors):
    return errors**4

QUARTIC = RatingMetric(
    name="quartic", label="quartic error", better=Better.LOWER, of=partial(ErrorMeans, each=fourth)
)
AGAIN = RatingMetric(name="mae", label="MAE", better=Better.LOWER, of=partial(ErrorMeans, each=np.abs))
"""
BASELINE = """
from dataclasses import replace
from fedboard.simulations.evaluation.references import BASELINES
SIMPLEST = replace(BASELINES[0], name="simplest", beside_runs=False)
"""
SMALL = {"data": {"synthetic": {"n_users": 150, "n_items": 60, "mean_ratings_per_user": 15.0}}}


@pytest.fixture(autouse=True)
def nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_OTHERS", {})


def package(folder: Path, name: str, code: str, entries: str) -> Path:
    """An installed package of somebody else's; its list of entry points."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entries)
    return about / "entry_points.txt"


@pytest.mark.slow
def test_a_metric_in_a_file_has_one_value_in_memory_streamed_and_by_two_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_blocks, "_FEWEST_PER_SPAN", 100)
    monkeypatch.setattr(evaluation, "_CENSUSES", OrderedDict())
    (tmp_path / "mine.py").write_text(METRIC)
    choice = f"{tmp_path}/mine.py:QUARTIC"
    config, ratings = parse_config({"run": {"metrics": [choice]}}), some_ratings()
    streamed = streamed_problem(HeldStream.of_ratings(ratings), config)
    model = fit_reference("item-mean", Fitting.of(streamed, Feedback.EXPLICIT))

    with WorkerPool(1) as one, WorkerPool(2) as two:
        found = [
            judge(model, streamed, part="test", pool=pool, block_ratings=block)
            for pool, block in ((one, 1 << 20), (one, 40), (two, 400))
        ]
        without = judge(model, replace(streamed, own_metrics=()), part="test", pool=one)

    assert shared_problem(parse_config({**SMALL, "run": {"metrics": [choice]}})).own_metrics == (choice,)
    for judged in found:
        assert judged.metrics["test_quartic"] == pytest.approx(found[0].metrics["test_quartic"], rel=1e-12)
        assert judged.metrics["test_quartic"] > judged.metrics["test_rmse"] ** 4
        assert len(judged.by_activity["test_quartic"]) == 5
    assert set(found[0].metrics) - set(without.metrics) == {"test_quartic"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine.py:AGAIN", "two metrics have the name 'mae'"),
        ("mine.py:fourth", "must be a RatingMetric or ListMetric record, got function"),
        ("mine.py:NOTHING", "got NoneType; see docs/guide/extending.md"),
        ("nowhere.py:QUARTIC", "there is no such Python file"),
        ("quartic", "name each as path/to/file.py:NAME, got 'quartic'"),
    ],
)
def test_what_is_no_metric_of_ones_own_is_said_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    (tmp_path / "mine.py").write_text(METRIC)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError, match=said):
        load_any(parse_config({**SMALL, "run": {"metrics": [name]}}))


def test_a_metric_of_another_package_is_judged_by_in_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "measures", METRIC, "[fedboard.metrics]\nquartic = measures:QUARTIC\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert "quartic" in [metric.name for metric in metrics_of()]
    assert "validation_quartic" in metric_names(Feedback.EXPLICIT, "validation")
    problem = load_any(parse_config(SMALL))
    model = fit_reference("item-mean", Fitting.of(problem, Feedback.EXPLICIT))
    with WorkerPool(1) as pool:
        assert judge(model, problem, part="test", pool=pool).metrics["test_quartic"] > 0


def test_a_baseline_in_a_file_or_of_another_package_is_fitted_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "[fedboard.baselines]\nsimplest = models:SIMPLEST\nwrong = models:replace\n"
    points = package(tmp_path, "models", BASELINE, entries)
    monkeypatch.syspath_prepend(tmp_path)
    problem, own = load_any(parse_config(SMALL)), f"{tmp_path}/models.py:SIMPLEST"

    assert "simplest" in every_reference()
    for name in ("simplest", own):
        assert is_reference(name)
        assert baseline_of(name).name == "simplest"
        model = fit_reference(name, Fitting.of(problem, Feedback.EXPLICIT))
        assert model.item_means.size == 60
        with pytest.raises(InputError, match="is not for implicit feedback"):
            fit_reference(name, Fitting.of(problem, Feedback.IMPLICIT))
    with pytest.raises(InputError, match="baseline 'wrong' must be a Baseline record, got function"):
        baseline_of("wrong")
    points.write_text(entries.rpartition("wrong")[0])
    os.utime(tmp_path)
    with pytest.raises(InputError, match="there is no model 'wrong' without privacy"):
        baseline_of("wrong")
