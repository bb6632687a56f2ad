"""The directions that are measured where nothing was learnt: which coordinates, when, and how long.

Empirical Bayes on data from its own model: the prior is found, and the posterior is as good as the oracle's.

The server's part of residual alternating minimisation: gauge, credible counts, moments and curvature.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedboard.common.algorithms.residual import shrinkage
from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.config import ResidualConfig, stage_of
from fedboard.common.algorithms.residual.item_step import (
    ReleasedRound,
    gauge,
    new_coordinates,
)
from fedboard.common.algorithms.residual.releases import measured_columns, sketch_factors, worth_measuring
from fedboard.common.algorithms.residual.shrinkage import (
    Estimates,
    Prior,
    fit_prior,
    posterior_means,
)
from fedboard.common.algorithms.shared.ratings_config import Feedback, RatingsConfig
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from tests.common.algorithms.conftest import N_ITEMS, a_residual_task, residual_boards


def board_at(task: Residual, t: int, *, empty: tuple[int, ...] = (), explores: float | None = None) -> Board:
    """Before alternation t, with no factors in some coordinates."""
    (board,) = (b for b in residual_boards(task) if stage_of(b.version, task.settings).alternation == t)
    factors = np.array(board.arrays["item_factors"])
    factors[:, list(empty)] = 0.0
    told = {} if explores is None else {"explores": np.array([explores])}
    return replace(board, arrays={**board.arrays, "item_factors": factors, **told}, _digest=[])


def test_the_first_alternation_measures_along_random_directions_in_all_coordinates() -> None:
    task = a_residual_task(rank=4, public_seed=11)

    sketch = sketch_factors(board_at(task, 1), task.settings, 1)

    assert sketch is not None
    assert sketch.columns.tolist() == [True] * 4
    assert sketch.length == 1.0
    drawn = np.random.default_rng(11).standard_normal((N_ITEMS, 4), dtype=np.float32) * np.float32(0.15)
    np.testing.assert_array_equal(sketch.factors, drawn)


@pytest.mark.parametrize("explores", [0.0, 1.0])
@pytest.mark.parametrize(("t", "empty"), [(1, (0, 1, 2)), (3, (1,)), (3, ()), (5, (1,))])
def test_coordinates_that_are_said_to_be_measured_are_those_that_users_fill(
    cohort: Cohort, t: int, empty: tuple[int, ...], explores: float
) -> None:
    """The server takes the others' sums for noise: it must know which they are, without looking at anybody."""
    task = a_residual_task(rounds=6)
    board = board_at(task, t, empty=empty, explores=explores)

    vectors = task.contribute(cohort, board, task.requests(board)).vectors

    assert vectors is not None
    assert measured_columns(board, task.settings, t).tolist() == vectors.any(axis=0).tolist()


N_BELIEVED, WIDTH = 6000, 3
SPREAD = np.array([[0.5, 0.2, 0.0], [0.2, 0.3, -0.1], [0.0, -0.1, 0.2]])
COEFFICIENTS = np.array([[0.4, -0.2, 0.1], [0.3, 0.0, -0.5]])


@dataclass(frozen=True, kw_only=True)
class World:
    """Items as the model says they are."""

    truth: np.ndarray
    design: np.ndarray
    noise: np.ndarray
    estimates: Estimates


def estimates_of(values: np.ndarray, noise: np.ndarray) -> Estimates:
    return Estimates(values=values, covariance=lambda first, last: noise[first:last])


def a_world(level: float = 1.0, n_items: int = N_BELIEVED, seed: int = 0) -> World:
    """Noise that differs much from item to item and has directions, as that of c_i M does."""
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(n_items), rng.standard_normal(n_items)])
    truth = design @ COEFFICIENTS + rng.multivariate_normal(np.zeros(WIDTH), SPREAD, n_items)
    root = np.array([[1.0, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.2, 0.6]])
    noise = level * np.exp(rng.uniform(-4.0, 3.0, n_items))[:, None, None] * (root @ root.T)
    draws = np.einsum("iab,ib->ia", np.linalg.cholesky(noise), rng.standard_normal((n_items, WIDTH)))
    return World(truth=truth, design=design, noise=noise, estimates=estimates_of(truth + draws, noise))


def squared_error(world: World, found: np.ndarray) -> float:
    return float(np.mean(np.sum((found - world.truth) ** 2, axis=1)))


def test_a_posterior_mean_is_prior_plus_gain_times_surprise() -> None:
    """``prior_i + S (S + N_i)^-1 (estimate_i - prior_i)``, an item at a time, with an explicit inverse."""
    world = a_world(n_items=50)
    prior = Prior(means=world.design @ COEFFICIENTS, covariance=SPREAD)

    found = posterior_means(world.estimates, prior)

    for item, noise in enumerate(world.noise):
        gain = SPREAD @ np.linalg.inv(SPREAD + noise)
        surprise = world.estimates.values[item] - prior.means[item]
        np.testing.assert_allclose(found[item], prior.means[item] + gain @ surprise, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("level", [0.1, 1.0, 10.0])
def test_the_posterior_is_better_than_the_estimates_and_as_good_as_the_oracle(level: float) -> None:
    world = a_world(level)
    oracle = Prior(means=world.design @ COEFFICIENTS, covariance=SPREAD)

    found = posterior_means(world.estimates, fit_prior(world.estimates, world.design, ridge=1.0))

    best = squared_error(world, posterior_means(world.estimates, oracle))
    assert squared_error(world, found) < 1.02 * best
    assert squared_error(world, found) < 0.7 * squared_error(world, world.estimates.values)
    assert squared_error(world, found) < squared_error(world, oracle.means)


@pytest.mark.slow
def test_items_can_be_taken_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world(n_items=500)
    asked: list[tuple[int, int]] = []

    def covariance(first: int, last: int) -> np.ndarray:
        asked.append((first, last))
        return world.noise[first:last]

    def fitted() -> np.ndarray:
        estimates = Estimates(values=world.estimates.values, covariance=covariance)
        return posterior_means(estimates, fit_prior(estimates, world.design, ridge=1.0))

    whole = fitted()
    for size in (1, 7, 499, 500):
        monkeypatch.setattr(shrinkage, "_ITEMS_AT_ONCE", size)
        asked.clear()
        np.testing.assert_allclose(fitted(), whole, atol=1e-10)
        assert max(last - first for first, last in asked) <= size


def items_of(
    n_items: int, width: int, level: float, spread: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, Estimates]:
    """Truths and their estimates; noise differs from item to item by a factor of 30 and has directions."""
    axes = np.linalg.qr(np.random.default_rng(width).standard_normal((width, width)))[0]
    shape = (axes * np.geomspace(1.0, 4.0, width)) @ axes.T
    noise = level * np.exp(rng.uniform(-1.7, 1.7, n_items))[:, None, None] * shape
    sizes, directions = np.linalg.eigh(spread)
    root = directions * np.sqrt(np.maximum(sizes, 0.0))
    truth = rng.standard_normal((n_items, width)) @ root.T
    draws = np.einsum("iab,ib->ia", np.linalg.cholesky(noise), rng.standard_normal((n_items, width)))
    return truth, estimates_of(truth + draws, noise)


SIZES = [(60, 1), (60, 5), (800, 1), (800, 5), (800, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.01, pytest.param(10.0, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(("n_items", "width"), SIZES)
def test_in_nine_of_ten_draws_of_pure_noise_nothing_is_found(n_items: int, width: int, level: float) -> None:
    rng, nothing = np.random.default_rng(6), np.zeros((width, width))
    found = []
    for _ in range(60):
        _, estimates = items_of(n_items, width, level, nothing, rng)
        prior = fit_prior(estimates, None, ridge=20.0)
        found.append(float(np.linalg.eigvalsh(prior.covariance)[-1]))
    none = np.count_nonzero(np.array(found) < 1e-8) / 60
    # The bias is looked at twice: alone, and with the others.
    assert none >= 0.9
    assert max(found) < 3.0 * level


RANK, N_UPDATED, N_USERS = 4, 60, 500
MANY = {"ratings_of_user": 1e9, "spread": 1.0}
"""Users of whom everything is known."""


def a_matrix(rng: np.random.Generator, width: int = RANK) -> np.ndarray:
    root = rng.standard_normal((width, 2 * width))
    return root @ root.T / (2 * width)


def symmetric_noise(rng: np.random.Generator, size: int, width: int, stddev: float) -> np.ndarray:
    noise = rng.standard_normal((size, width, width)) * stddev
    upper = np.triu(noise, 1) / np.sqrt(2.0)
    return upper + upper.transpose(0, 2, 1) + noise * np.eye(width)


def test_a_change_of_gauge_changes_no_prediction() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((N_UPDATED, RANK)), rng.standard_normal((N_USERS, RANK)) @ a_matrix(rng)
    counts = rng.integers(1, 100, N_UPDATED).astype(float)

    change = gauge(u, v.T @ v / N_USERS, counts)

    moved_u, moved_v = u @ change, v @ np.linalg.inv(change).T
    np.testing.assert_allclose(moved_u @ moved_v.T, u @ v.T, atol=1e-9)
    users = moved_v.T @ moved_v / N_USERS
    items = (moved_u * counts[:, None]).T @ moved_u / counts.sum()
    np.testing.assert_allclose(users, np.eye(RANK) / RANK, atol=1e-9)
    np.testing.assert_allclose(items, np.diag(np.diag(items)), atol=1e-9)


def a_round(rng: np.random.Generator, linear: np.ndarray, stddev: float, width: int) -> ReleasedRound:
    counts = rng.uniform(20.0, 60.0, len(linear))
    return ReleasedRound(
        linear=linear,
        noise_stddev=stddev,
        moment=a_matrix(rng, width) + 0.5 * np.eye(width),
        weighted_counts=counts,
        mean_weights=np.full(len(linear), 0.4),
        unobserved=np.zeros(len(linear)),
        spread=1.0,
        count_variances=np.zeros(len(linear)),
    )


def coordinates(start: np.ndarray, released: ReleasedRound, settings: ResidualConfig) -> np.ndarray:
    return new_coordinates(start, released, None, settings, remembered=None).coordinates


@pytest.mark.parametrize("feedback", list(Feedback))
def test_the_declared_noise_is_the_noise_of_the_step(feedback: Feedback) -> None:
    """Items that are all alike: a step of pure noise is shrunk to almost nothing, and only if its size is known."""
    rng = np.random.default_rng(10)
    start = np.zeros((4000, 2))
    released = a_round(rng, 30.0 * rng.standard_normal((4000, 2)), 30.0, 2)
    settings = ResidualConfig(noise_variance=1e-9, shared=RatingsConfig(feedback=feedback))
    step = released.linear @ np.linalg.inv(released.moment) / released.weighted_counts[:, None]
    told = coordinates(start, released, settings)
    misled = coordinates(start, replace(released, noise_stddev=20.0), settings)

    assert np.mean(told**2) < 0.03 * np.mean(step**2)
    assert np.mean(misled**2) > 0.1 * np.mean(step**2)


@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_a_round_is_worth_measuring_where_noise_alone_would_not_look_like_factors(variance: float) -> None:
    """The edge is where it is said to be: just above it, the largest direction of a simulation stands out."""
    rng, n_items = np.random.default_rng(14), 2000
    settings = ResidualConfig(rank=3)
    level, counts = 0.6 * settings.vector_bound**2 / 4, np.full(n_items, 30.0)

    def edge_over_signal(stddev: float) -> float:
        """Largest eigenvalue of pure noise, less that noise itself, over what factors would add."""
        noise = stddev / (30.0 * level)
        drawn = noise * rng.standard_normal((n_items, 4))
        largest = float(np.linalg.eigvalsh(drawn.T @ drawn / n_items)[-1])
        return (largest - noise**2) / (3.0 * variance)

    worth = [worth_measuring(variance, counts, s, settings, **MANY) for s in np.geomspace(0.1, 1e4, 200)]
    assert worth[0]
    assert not worth[-1]
    assert worth == sorted(worth, reverse=True)
    turn = float(np.geomspace(0.1, 1e4, 200)[worth.index(False)])
    assert 0.6 < edge_over_signal(turn) < 1.1  # of so few items the largest is somewhat below its limit
    assert not worth_measuring(0.0, counts, 1.0, settings, **MANY)
    assert worth_measuring(variance, counts, 0.0, settings, **MANY)
