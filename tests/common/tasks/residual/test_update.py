"""The server's part of residual alternating minimisation: gauge, credible counts, moments and curvature."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.local import credible_curvature
from fedboard.common.tasks.residual.start import worth_measuring
from fedboard.common.tasks.residual.update import (
    ReleasedRound,
    credible_weighted_counts,
    gauge,
    moment_matrix,
    new_coordinates,
)
from fedboard.common.tasks.shared.ratings_config import Feedback, RatingsConfig

RANK, N_ITEMS, N_USERS = 4, 60, 500
MANY = {"ratings_of_user": 1e9, "spread": 1.0}
"""Users of whom everything is known."""


def a_matrix(rng: np.random.Generator, width: int = RANK) -> np.ndarray:
    root = rng.standard_normal((width, 2 * width))
    return root @ root.T / (2 * width)


def symmetric_noise(rng: np.random.Generator, size: int, width: int, stddev: float) -> np.ndarray:
    noise = rng.standard_normal((size, width, width)) * stddev
    upper = np.triu(noise, 1) / np.sqrt(2.0)
    return upper + upper.transpose(0, 2, 1) + noise * np.eye(width)


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0])
def test_a_change_of_gauge_changes_no_prediction(exponent: float) -> None:
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((N_ITEMS, RANK)), rng.standard_normal((N_USERS, RANK)) @ a_matrix(rng)
    counts = rng.integers(1, 100, N_ITEMS).astype(float)

    change = gauge(u, v.T @ v / N_USERS, counts, exponent)

    moved_u, moved_v = u @ change, v @ np.linalg.inv(change).T
    np.testing.assert_allclose(moved_u @ moved_v.T, u @ v.T, atol=1e-9)
    users = moved_v.T @ moved_v / N_USERS
    items = (moved_u * counts[:, None]).T @ moved_u / counts.sum()
    np.testing.assert_allclose(users, np.diag(np.diag(users)), atol=1e-9)
    np.testing.assert_allclose(items, np.diag(np.diag(items)), atol=1e-9)
    assert np.trace(users) == pytest.approx(1.0)
    # What varies more among items varies more among users, as much as the exponent says.
    variances = np.diag(items) * np.diag(users)
    np.testing.assert_allclose(np.diag(users), variances**exponent / np.sum(variances**exponent))


def test_weighted_counts_without_noise_are_kept_and_all_noise_is_replaced_by_the_prediction() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(5, 2000, N_ITEMS).astype(float)
    truth = 0.3 * counts**0.75 * rng.uniform(0.8, 1.25, N_ITEMS)

    sure = credible_weighted_counts(truth, counts, 0.25, stddev=0.0, counts_stddev=0.0)
    unsure = credible_weighted_counts(truth, counts, 0.25, stddev=1e9, counts_stddev=0.0)
    exact, lost = sure.mean, unsure.mean

    assert not sure.variance.any()
    np.testing.assert_allclose(unsure.variance, (0.3 * lost) ** 2)  # what was believed before
    np.testing.assert_allclose(exact, truth)
    shape = counts**0.75
    np.testing.assert_allclose(lost, np.maximum(shape * (shape @ truth) / (shape @ shape), 0.3))


def test_credible_weighted_counts_are_nearer_the_truth_and_never_near_zero() -> None:
    rng = np.random.default_rng(3)
    counts = np.exp(rng.uniform(0.0, 9.0, 2000))
    truth = 0.3 * counts**0.75 * rng.uniform(0.8, 1.25, counts.size)
    noisy = truth + 5.0 * rng.standard_normal(counts.size)

    credible = credible_weighted_counts(noisy, counts, 0.25, stddev=5.0, counts_stddev=0.0)
    found = credible.mean
    assert np.all(credible.variance <= 25.0)

    assert found.min() >= 0.3
    rare = truth < 20
    assert np.mean((found - truth)[rare] ** 2) < 0.3 * np.mean((noisy - truth)[rare] ** 2)
    assert np.mean((found - truth)[~rare] ** 2) < np.mean((noisy - truth)[~rare] ** 2)


@pytest.mark.parametrize("stddev", [1e-3, 0.03, 0.1, 0.3, 10.0])
def test_a_noisy_moment_is_usable_and_near_the_truth_where_it_can_be(stddev: float) -> None:
    rng = np.random.default_rng(5)
    noisy_error = found_error = 0.0
    for _ in range(50):
        truth = a_matrix(rng, 5)
        truth *= 0.6 * 1.3**2 / np.trace(truth) * rng.uniform(0.7, 1.3)
        noisy = truth + symmetric_noise(rng, 1, 5, stddev)[0]
        found = moment_matrix(noisy * 40, stddev=40 * stddev, population=40.0, bound=1.3)
        noisy_error += np.sum((noisy - truth) ** 2)
        found_error += np.sum((found - truth) ** 2)
        np.testing.assert_allclose(found, found.T, atol=1e-12)
        # No direction without second moment, along which a step would have no end.
        assert np.linalg.eigvalsh(found).min() > min(0.5 * stddev, 0.05)
    if stddev < 0.01:
        assert found_error < 1.05 * noisy_error


def a_released_curvature(rng: np.random.Generator, spread: float) -> tuple[np.ndarray, ...]:
    """Items' users differ from the average user: H_i = c_i (M + a symmetric matrix of their own)."""
    moment, counts = a_matrix(rng) + np.eye(RANK), np.exp(rng.uniform(1.0, 6.0, 400))
    truth = counts[:, None, None] * (moment + symmetric_noise(rng, 400, RANK, spread))
    return moment, counts, truth


def test_noisy_curvature_is_nearer_the_truth_than_what_was_released_and_than_the_usual() -> None:
    rng = np.random.default_rng(8)
    moment, counts, truth = a_released_curvature(rng, 0.2)  # errors below are relative to the items' counts
    noisy = truth + symmetric_noise(rng, 400, RANK, 20.0)

    found = credible_curvature(noisy, moment, counts, 20.0)

    def error(matrices: np.ndarray) -> float:
        return float(np.mean(np.sum((matrices - truth) ** 2, axis=(1, 2)) / counts**2))

    assert error(found) < 0.7 * error(noisy)
    assert error(found) < 0.8 * error(counts[:, None, None] * moment)
    assert np.linalg.eigvalsh(found).min() > 0.0


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
