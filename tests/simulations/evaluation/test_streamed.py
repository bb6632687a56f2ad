"""People judged block by block: the same numbers as in memory, whatever the blocks, the spans and the workers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.simulations.baselines.means import Predictor
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import Ratings
from fedboard.simulations.data.stream import HeldStream
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation import evaluation, split_blocks
from fedboard.simulations.evaluation.evaluation import judge
from fedboard.simulations.evaluation.metrics.metric import popularity_buckets
from fedboard.simulations.evaluation.metrics.ranking import SLICE_POSITIONS, SlicedRecalls
from fedboard.simulations.evaluation.references import Fitting, fit_reference
from fedboard.simulations.evaluation.split_blocks import drawn
from fedboard.simulations.problem import Problem, StreamedProblem, problem_of, streamed_problem
from tests.simulations.engine.conftest import some_ratings
from tests.simulations.evaluation.metrics.small_lists import judged, value_of

CLOSE = 1e-12
FEEDBACK = [Feedback.EXPLICIT, Feedback.IMPLICIT]


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return some_ratings(n_users=700, n_items=130, seed=3)


@pytest.fixture(autouse=True)
def small_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several spans, and counts that no other test has left."""
    monkeypatch.setattr(split_blocks, "_FEWEST_PER_SPAN", 150)
    evaluation._CENSUSES.clear()
    yield
    evaluation._CENSUSES.clear()


def config_of(feedback: Feedback) -> SimulationConfig:
    return SimulationConfig(feedback=feedback)


def model_of(ratings: Ratings, feedback: Feedback) -> tuple[Problem, Predictor]:
    problem = problem_of(ratings, config_of(feedback))
    settings = {"rank": 3, "rounds": 2}
    return problem, fit_reference("als", Fitting.of(problem, feedback), settings)


def stream_of(ratings: Ratings, feedback: Feedback) -> StreamedProblem:
    return streamed_problem(HeldStream.of_ratings(ratings), config_of(feedback))


def require_close(found: Any, expected: Any) -> None:
    """The same keys in the same order, and numbers to the last bits."""
    if isinstance(expected, Mapping):
        assert list(found) == list(expected)
        for name in expected:
            require_close(found[name], expected[name])
    elif isinstance(expected, Sequence):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            require_close(one, other)
    elif expected is None or math.isnan(expected):
        assert found is None or math.isnan(found)
    else:
        assert found == pytest.approx(expected, rel=CLOSE, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("feedback", FEEDBACK)
@pytest.mark.parametrize("part", ["validation", "test"])
def test_any_blocks_have_the_numbers_of_judging_in_memory(
    ratings: Ratings, feedback: Feedback, part: str
) -> None:
    problem, model = model_of(ratings, feedback)
    with WorkerPool(1) as pool:
        expected = judge(model, problem, part=part, pool=pool).record()
        for block_ratings in (1, 700, 5000, 1 << 20):
            found = judge(
                model, stream_of(ratings, feedback), part=part, pool=pool, block_ratings=block_ratings
            )

            require_close(found.record(), expected)
    for name in ("coverage@20", "gini@20"):  # whole numbers behind them
        assert found.metrics.get(name) == expected["metrics"].get(name)
    assert len(expected["by_activity"]["activity_edges"]) == 6


def test_in_memory_the_numbers_are_those_of_the_definitions(ratings: Ratings) -> None:
    """Of whole arrays at once, without groups, blocks or merging."""
    problem, model = model_of(ratings, Feedback.EXPLICIT)
    held_out, history = problem.split.test, problem.split.train_and_validation
    counts = np.bincount(problem.train.items, minlength=130)
    predicted = model.predict(history, held_out.users, held_out.items)
    buckets = popularity_buckets(counts)[held_out.items]
    errors = predicted - held_out.values

    with WorkerPool(1) as pool:
        found = judge(model, problem, part="test", pool=pool)

    require_close(found.metrics["test_rmse"], np.sqrt(np.mean(errors**2)))
    require_close(found.metrics["test_mae"], np.mean(np.abs(errors)))
    sliced = [np.sqrt(np.mean(errors[buckets == bucket] ** 2)) for bucket in range(5)]
    require_close(found.sliced["test_rmse"], sliced)


def test_lists_in_memory_are_judged_as_the_definitions_say(ratings: Ratings) -> None:
    problem, model = model_of(ratings, Feedback.IMPLICIT)
    target, counts = problem.split.test.target, np.bincount(problem.train.items, minlength=130)
    lists = model.recommend(problem.split.test.history, k=100)

    with WorkerPool(1) as pool:
        found = judge(model, problem, part="test", pool=pool)

    for name, value in found.metrics.items():
        metric, _, k = name.partition("@")
        require_close(value, value_of(metric, lists, target, k=int(k), counts=counts))
    assert len(found.metrics) == 9
    whole = SlicedRecalls(SLICE_POSITIONS)
    whole.add(judged(lists, target, popularity_buckets(counts)))
    require_close(found.sliced["recall"], whole.values().tolist())


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_a_sample_is_judged_as_if_there_were_nobody_else(ratings: Ratings, feedback: Feedback) -> None:
    _, model = model_of(ratings, feedback)
    whole = replace(stream_of(ratings, feedback), judged_users=300)
    chosen = drawn(ratings.user_keys(), 300 / ratings.n_users)
    rows = chosen[ratings.users]
    alone = replace(
        ratings, users=ratings.users[rows], items=ratings.items[rows], values=ratings.values[rows]
    )

    with WorkerPool(1) as pool:
        found = judge(model, whole, part="test", pool=pool)
        expected = judge(model, problem_of(alone, config_of(feedback)), part="test", pool=pool)

    require_close(found.metrics, expected.metrics)
    require_close(found.by_activity, expected.by_activity)
    assert found.record()["sample"] == {"users": 300, "of": ratings.n_users}
    assert 200 < chosen.sum() < 400
