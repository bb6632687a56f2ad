"""Empirical Bayes on data from its own model: the prior is found, and the posterior is as good as the oracle's."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from fedboard.common.tasks.residual import shrinkage
from fedboard.common.tasks.residual.shrinkage import (
    Estimates,
    Prior,
    fit_prior,
    fit_prior_by_moments,
    positive_definite,
    posterior_means,
)

N_ITEMS, WIDTH = 6000, 3
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


def a_world(level: float = 1.0, n_items: int = N_ITEMS, seed: int = 0) -> World:
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


def test_the_fitted_prior_is_near_the_true_one() -> None:
    world = a_world()

    prior = fit_prior(world.estimates, world.design, ridge=1.0)

    assert np.abs(prior.covariance - SPREAD).max() < 0.06
    assert np.abs(prior.means - world.design @ COEFFICIENTS).max() < 0.15
    assert np.mean(np.abs(prior.means - world.design @ COEFFICIENTS)) < 0.03


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


@pytest.mark.parametrize("make", [lambda rng: rng.standard_normal((4, 4)), lambda _: np.zeros((4, 4))])
def test_eigenvalues_are_raised_to_the_least(make: Callable[[np.random.Generator], np.ndarray]) -> None:
    matrix = make(np.random.default_rng(0))
    matrix = matrix + matrix.T

    found = positive_definite(matrix, least=0.3)

    values = np.linalg.eigvalsh(found)
    np.testing.assert_allclose(values, np.sort(np.maximum(np.linalg.eigvalsh(matrix), 0.3)), atol=1e-12)
    (stacked,) = positive_definite(matrix[None], least=0.3)
    np.testing.assert_allclose(stacked, found)


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


@pytest.mark.parametrize("level", [0.001, 0.1])
@pytest.mark.parametrize(("n_items", "width"), [(800, 1), (800, 5), (4000, 9)])
def test_what_items_differ_by_is_found_where_it_is_clear_of_the_noise(
    n_items: int, width: int, level: float
) -> None:
    rng = np.random.default_rng(7)
    axes = np.linalg.qr(rng.standard_normal((width, width)))[0]
    strengths = np.zeros(width)
    strengths[: max(1, width // 2)] = 2.0  # items vary along some directions, not along the others
    spread = (axes * strengths) @ axes.T

    _, estimates = items_of(n_items, width, level, spread, rng)
    found = fit_prior(estimates, None, ridge=20.0).covariance

    # The deviation of a moment of n normal numbers is sqrt(2 / n) of it; of a matrix somewhat more.
    assert np.linalg.norm(found - spread, ord=2) < 2.0 * (4.0 * np.sqrt((1 + width) / n_items) + level)
    beyond = np.linalg.eigvalsh(found)
    assert np.count_nonzero(beyond > 0.5) == max(1, width // 2)


def test_presence_keeps_the_fit_by_moments() -> None:
    """Frozen: what it finds of a small world, number by number."""
    world = a_world(n_items=40)

    prior = fit_prior_by_moments(world.estimates, world.design, ridge=1.0)

    spread, means = np.eye(WIDTH), np.zeros((40, WIDTH))
    for _ in range(2):
        for a in range(WIDTH):
            weights = 1.0 / (world.noise[:, a, a] + spread[a, a])
            pull = np.diag([0.0, 1.0 / spread[a, a]])
            left = (world.design * weights[:, None]).T @ world.design + pull
            right = (world.design * weights[:, None]).T @ world.estimates.values[:, a]
            means[:, a] = world.design @ np.linalg.solve(left, right)
        weights = np.array([1.0 / np.trace(spread + noise) ** 2 for noise in world.noise])
        errors = world.estimates.values - means
        total = sum(
            w * (np.outer(e, e) - noise) for w, e, noise in zip(weights, errors, world.noise, strict=True)
        )
        spread = positive_definite(np.asarray(total) / weights.sum(), least=1e-4)
    np.testing.assert_allclose(prior.covariance, spread, atol=1e-10)
    np.testing.assert_allclose(prior.means, means, atol=1e-10)
