"""Counts behind released counts: better than what was released, whatever they are like.

Item effects behind noisy sums, against simulation: near the true posterior, and nothing where all is noise.

Of a large catalogue a few rows are taken, and they are the right ones.
"""

import numpy as np
import pytest

from fedboard.common.algorithms.shared import regression
from fedboard.common.algorithms.shared.levels import (
    LikelyCounts,
    NoisySums,
    confounding,
    likely_counts,
    posterior_effects,
)
from fedboard.common.algorithms.shared.regression import gram_of, rated_rows

SHAPES = {
    "few popular": lambda rng: rng.pareto(1.0, 4000),
    "all alike": lambda rng: np.full(4000, 7.0),
    "none": lambda rng: np.zeros(4000),
    "many": lambda rng: rng.uniform(0.0, 500.0, 4000),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stddev", [0.5, 5.0, 50.0])
def test_the_posterior_is_nearer_than_the_release_and_knows_how_near(shape: str, stddev: float) -> None:
    rng = np.random.default_rng(3)
    counts = SHAPES[shape](rng)
    released = counts + rng.normal(0.0, stddev, counts.size)

    found = likely_counts(released, stddev=stddev)

    error = np.mean((found.mean - counts) ** 2)
    assert error < 1.02 * stddev**2
    assert error < 1.001 * np.mean((np.maximum(released, 0.0) - counts) ** 2)
    assert found.mean.min() >= 0.0
    assert 0.7 * error - 0.05 * stddev**2 < found.variance.mean() < 1.3 * error + 0.2 * stddev**2


N_ITEMS, SCATTER = 1500, 0.3


def world(tau: float, stddev: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, NoisySums]:
    """Effects, counts, and sums with ratings' own scatter and noise."""
    rng = np.random.default_rng(seed)
    counts = rng.pareto(1.2, N_ITEMS) + 0.2
    effects = rng.normal(0.0, tau, N_ITEMS) if tau else np.zeros(N_ITEMS)
    variances = stddev**2 + SCATTER * counts
    values = counts * effects + rng.normal(0.0, np.sqrt(variances))
    return effects, counts, NoisySums(values=values, variances=np.full(N_ITEMS, stddev**2))


def per_rating(errors: np.ndarray, counts: np.ndarray) -> float:
    """Mean square over ratings: an item counts as often as it is rated."""
    return float(np.average(errors**2, weights=counts))


def known(counts: np.ndarray) -> LikelyCounts:
    return LikelyCounts(mean=counts, variance=np.zeros_like(counts))


@pytest.mark.parametrize("tau", [0.1, 0.4])
@pytest.mark.parametrize("stddev", [0.1, 1.0, 10.0])
def test_without_knowing_the_scales_it_is_as_good_as_with(tau: float, stddev: float) -> None:
    """Risk near that of the posterior mean under the true scales; never above that of no estimate."""
    effects, counts, sums = world(tau, stddev)
    variances = tau**2 * counts**2 + SCATTER * counts + stddev**2
    oracle = tau**2 * counts / variances * sums.values

    found = posterior_effects(sums, known(counts), spread=1.0, mean_weight=1.0)

    risk, best, none = (per_rating(errors, counts) for errors in (found - effects, oracle - effects, effects))
    assert risk < 1.10 * best + 0.002
    assert risk < 1.02 * none


@pytest.mark.parametrize("stddev", [1.0, 10.0, 1000.0])
def test_where_no_item_differs_noise_is_not_taken_for_items(stddev: float) -> None:
    for seed in range(3):
        _, counts, sums = world(0.0, stddev, seed)

        found = posterior_effects(sums, known(counts), spread=1.0, mean_weight=1.0)

        assert np.sqrt(per_rating(found, counts)) < 0.08


def test_a_count_in_doubt_speaks_less() -> None:
    _, counts, sums = world(0.4, 0.3)
    doubtful = LikelyCounts(mean=counts, variance=9.0 * counts**2)

    sure = posterior_effects(sums, known(counts), spread=1.0, mean_weight=1.0)
    unsure = posterior_effects(sums, doubtful, spread=1.0, mean_weight=1.0)

    assert np.std(unsure) < 0.7 * np.std(sure)


@pytest.mark.parametrize("variance", [0.0, 0.01, 0.09])
def test_what_two_estimates_disagree_in_beyond_their_noise_is_found(variance: float) -> None:
    _, counts, first = world(0.3, 0.5, seed=1)
    rng = np.random.default_rng(2)
    moved = counts * rng.normal(0.0, np.sqrt(variance), N_ITEMS)
    noise = rng.normal(0.0, 0.5, N_ITEMS) - rng.normal(0.0, 0.5, N_ITEMS)
    second = NoisySums(values=first.values + moved + noise, variances=first.variances)

    found = confounding(first, second, counts, spread=1.0)

    assert found == pytest.approx(variance, abs=1e-3, rel=0.25)


@pytest.mark.parametrize("n_items", [20, 100, 10_000])
@pytest.mark.parametrize("n_ratings", [0, 1, 12])
def test_the_rows_that_are_taken_are_those_of_the_items(n_items: int, n_ratings: int) -> None:
    rng = np.random.default_rng(n_items + n_ratings)
    values = rng.standard_normal((n_items, 3))
    items = rng.integers(n_items, size=n_ratings).astype(np.int32)

    rows, places = rated_rows(items, n_items)

    np.testing.assert_array_equal(values[rows][places], values[items])
    assert places.dtype == np.int32
    assert len(values[rows]) in (n_items, np.unique(items).size)


def test_a_gram_matrix_in_blocks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    whole = gram_of(factors)

    monkeypatch.setattr(regression, "_ROWS_AT_ONCE", 7)

    np.testing.assert_array_equal(whole, factors.T.astype(np.float64) @ factors)
    np.testing.assert_allclose(gram_of(factors), whole, rtol=1e-12)
