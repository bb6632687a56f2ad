"""Models without privacy of a stream: those of the fit in memory, whatever the blocks and whoever computes."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.baselines import als, sums
from fedboard.simulations.baselines.als import default_als, fit_als, fit_als_by_sums
from fedboard.simulations.baselines.means import BiasConfig, fit_bias, fit_item_mean, fit_popularity
from fedboard.simulations.baselines.sums import TrainRows
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import Ratings
from fedboard.simulations.data.stream import HeldStream
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.split_blocks import StreamBlocks
from fedboard.simulations.problem import Problem, problem_of, streamed_problem
from tests.simulations.engine.conftest import some_ratings

RANGE = (1.0, 5.0)
SPANS = list(pairwise([0, 90, 200, 201, 400]))


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return some_ratings(n_users=400, n_items=50, seed=5)


def problem_in_memory(ratings: Ratings, feedback: Feedback) -> Problem:
    return problem_of(ratings, SimulationConfig(feedback=feedback))


def train_of(ratings: Ratings, feedback: Feedback, pool: WorkerPool, block: int = 900) -> TrainRows:
    config = SimulationConfig(feedback=feedback)
    problem = streamed_problem(HeldStream.of_ratings(ratings), config)
    source = StreamBlocks(stream=problem.stream, splitting=problem.splitting, block_ratings=block)
    return TrainRows(source.train, SPANS, n_items=source.n_items, pool=pool)


@pytest.mark.parametrize("block", [1, 900, 1 << 20])
def test_item_means_biases_and_popularity_are_those_of_the_fit_in_memory(
    ratings: Ratings, block: int
) -> None:
    train = problem_in_memory(ratings, Feedback.EXPLICIT).train
    config = BiasConfig(rating_range=RANGE, sweeps=3)
    with WorkerPool(1) as pool:
        rows = train_of(ratings, Feedback.EXPLICIT, pool, block)

        means = fit_item_mean(rows, rating_range=RANGE).item_means
        biases = fit_bias(rows, config).item_biases
        popular = fit_popularity(rows).item_counts

    expected = fit_item_mean(train, rating_range=RANGE).item_means
    np.testing.assert_allclose(means, expected, rtol=1e-13)
    np.testing.assert_allclose(biases, fit_bias(train, config).item_biases, rtol=1e-11)
    np.testing.assert_array_equal(popular, fit_popularity(train).item_counts)
    assert rows.counts.n_active == np.count_nonzero(train.counts)


@pytest.mark.parametrize("feedback", [Feedback.EXPLICIT, Feedback.IMPLICIT])
def test_als_is_that_of_the_fit_in_memory_to_its_rounding(ratings: Ratings, feedback: Feedback) -> None:
    train = problem_in_memory(ratings, feedback).train
    config = replace(default_als(feedback, rating_range=RANGE, rank=4), sweeps=5)
    with WorkerPool(1) as pool:
        rows = train_of(ratings, feedback, pool)
        found = fit_als_by_sums(rows, config)

    expected = fit_als(train, config)
    assert found.mean == pytest.approx(expected.mean, rel=1e-12)
    np.testing.assert_allclose(found.item_coordinates, expected.item_coordinates, rtol=1e-4, atol=1e-5)


def test_of_very_many_users_the_first_sweeps_look_at_some_and_the_last_at_all(
    ratings: Ratings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes as near to the data as sweeps on everybody do."""
    train = problem_in_memory(ratings, Feedback.EXPLICIT).train
    config = replace(default_als(Feedback.EXPLICIT, rating_range=RANGE, rank=2), sweeps=8)
    read: list[int] = []

    monkeypatch.setattr(sums, "MOST_USERS_AT_FIRST", 150)
    with WorkerPool(1) as pool:
        whole = train_of(ratings, Feedback.EXPLICIT, pool)

        def watched(start, stop):
            read.append(start)
            return whole.read(start, stop)

        rows = TrainRows(watched, SPANS, n_items=whole.n_items, pool=pool)
        found = fit_als_by_sums(rows, config)

    starts = [start for start, _ in SPANS]
    assert read == [*starts, *[0, 90] * (1 + 4), *starts * 4]  # counted, counted, four sweeps, four sweeps
    users, items = train.user_of_entry(), train.items
    errors = [
        float(np.mean((model.predict(train, users, items) - train.ratings) ** 2))
        for model in (found, fit_als(train, config))
    ]
    assert errors[0] < 1.02 * errors[1]


def test_als_says_what_does_not_fit(ratings: Ratings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(als, "MOST_BYTES", 1000)
    with WorkerPool(1) as pool:
        rows = train_of(ratings, Feedback.EXPLICIT, pool)

        with pytest.raises(
            InputError, match=r"keeps a matrix per item, .* for 50 items at width 5.*smaller rank"
        ):
            fit_als_by_sums(rows, default_als(Feedback.EXPLICIT, rating_range=RANGE, rank=4))
