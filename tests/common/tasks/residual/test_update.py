"""The server's part of residual alternating minimisation: gauge, credible counts, moments and curvature."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.kernels.shared.packed import unpack_symmetric
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.curvature import credible_curvature
from fedboard.common.tasks.residual.exploring import costs_little, share_known, worth_measuring
from fedboard.common.tasks.residual.update import (
    ReleasedRound,
    Remembered,
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


def test_the_gauge_is_kept_where_it_is_right_already() -> None:
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal((N_ITEMS, RANK)), rng.standard_normal((N_USERS, RANK))
    counts = rng.integers(1, 100, N_ITEMS).astype(float)
    first = gauge(u, v.T @ v / N_USERS, counts, 0.5)
    moved = v @ np.linalg.inv(first).T

    again = gauge(u @ first, moved.T @ moved / N_USERS, counts, 0.5)

    np.testing.assert_allclose(np.abs(again), np.eye(RANK), atol=1e-6)


def test_directions_in_which_no_item_differs_do_not_blow_the_gauge_up() -> None:
    u = np.zeros((N_ITEMS, RANK))
    u[:, 0] = np.linspace(-1.0, 1.0, N_ITEMS)
    for factors in (u, np.zeros_like(u)):
        change = gauge(factors, np.eye(RANK), np.ones(N_ITEMS), 1.0)
        assert np.isfinite(change).all()
        assert np.linalg.matrix_rank(change) == RANK


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


def test_uncertain_plain_counts_are_believed_less() -> None:
    counts = np.array([100.0, 100.0, 100.0, 3.0])
    noisy = np.array([30.0, 30.0, 30.0, 12.0])

    sure, unsure = (
        credible_weighted_counts(noisy, counts, 0.25, stddev=3.0, counts_stddev=stddev).mean[3]
        for stddev in (0.0, 30.0)
    )

    assert sure < 0.5 * unsure
    assert unsure > 10.0


def test_packed_matrices_are_symmetric_row_by_row() -> None:
    (first, second) = unpack_symmetric(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], np.arange(6.0)]), rank=3)

    np.testing.assert_array_equal(first, [[1, 2, 3], [2, 4, 5], [3, 5, 6]])
    np.testing.assert_array_equal(second, second.T)


def test_a_moment_without_noise_is_the_moment() -> None:
    truth = a_matrix(np.random.default_rng(4), 5)

    found = moment_matrix(truth * 300, stddev=0.0, population=300.0, bound=1.3)

    np.testing.assert_allclose(found, truth, atol=1e-12)


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


def test_curvature_without_noise_is_the_curvature() -> None:
    moment, counts, truth = a_released_curvature(np.random.default_rng(6), 0.1)

    found = credible_curvature(truth, moment, counts, 1e-9)

    np.testing.assert_allclose(found, truth, rtol=1e-6, atol=1e-6)


def test_curvature_that_is_all_noise_is_the_usual_one() -> None:
    rng = np.random.default_rng(7)
    moment, counts, truth = a_released_curvature(rng, 0.0)

    found = credible_curvature(truth + symmetric_noise(rng, 400, RANK, 500.0), moment, counts, 500.0)

    usual = counts[:, None, None] * moment
    errors = np.linalg.norm(found - usual, axis=(1, 2)) / np.linalg.norm(usual, axis=(1, 2))
    assert np.median(errors) < 0.5
    assert np.linalg.eigvalsh(found).min() > 0.0


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


def test_matrices_of_the_items_that_are_the_usual_ones_change_nothing() -> None:
    rng = np.random.default_rng(9)
    start, linear = rng.standard_normal((N_ITEMS, 3)), rng.standard_normal((N_ITEMS, 3))
    plain = a_round(rng, linear, 2.0, 3)
    usual = plain.weighted_counts[:, None, None] * plain.moment
    for settings in (ResidualConfig(), ResidualConfig(shrinkage="ridge")):
        expected = coordinates(start, plain, settings)
        found = coordinates(start, replace(plain, curvature=usual), settings)
        np.testing.assert_allclose(found, expected, atol=1e-9)


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


def test_the_spread_of_ratings_is_part_of_the_noise() -> None:
    """Ratings of twice the deviation tell a quarter: what is declared without release noise scales with it."""
    rng = np.random.default_rng(11)
    released = a_round(rng, rng.standard_normal((N_ITEMS, 2)), 1e-6, 2)
    settings, start = ResidualConfig(noise_variance=0.5), np.zeros((N_ITEMS, 2))

    narrow, wide = (
        new_coordinates(start, replace(released, spread=spread), None, settings, remembered=None).measured
        for spread in (1.0, 2.0)
    )

    np.testing.assert_allclose(narrow.precisions, 4.0 * wide.precisions, rtol=1e-3)
    along = np.linalg.inv(released.moment)[0, 0]
    np.testing.assert_allclose(narrow.precisions, released.weighted_counts / (0.5 * 0.4 * along), rtol=1e-3)


@pytest.mark.slow
def test_the_scatter_of_ratings_does_not_average_out_over_rounds() -> None:
    """Twenty rounds of the same ratings, no factors: what is known of their means, and what is believed."""
    rng = np.random.default_rng(15)
    settings, start, counts = (
        ResidualConfig(noise_variance=0.5),
        np.zeros((4000, 1)),
        rng.uniform(20, 60, 4000),
    )
    means = np.sqrt(0.2 / counts) * rng.standard_normal(4000)  # of 0.5 spread^2 an item keeps weight 0.4
    released = replace(a_round(rng, means[:, None], 3.0, 1), moment=np.eye(1), weighted_counts=counts)
    remembered = None
    for _ in range(20):
        linear = (counts * means + 3.0 * rng.standard_normal(4000))[:, None]
        again = replace(released, linear=linear)
        found = new_coordinates(start, again, None, settings, remembered=remembered)
        remembered = found.measured

    off = remembered.precisions * (remembered.values - means) ** 2
    assert np.mean(off) == pytest.approx(1.0, abs=0.1)
    assert np.mean(found.coordinates[:, 0] ** 2) < 0.1 * np.mean(means**2)


@pytest.mark.parametrize("width", [1, 3])
def test_what_was_measured_before_and_what_is_measured_now_are_joined_by_their_precision(width: int) -> None:
    rng = np.random.default_rng(12)
    start, released = (
        np.zeros((N_ITEMS, width)),
        a_round(rng, rng.standard_normal((N_ITEMS, width)), 3.0, width),
    )
    settings = ResidualConfig()
    now = new_coordinates(start, released, None, settings, remembered=None).measured
    before = Remembered(
        values=rng.standard_normal(N_ITEMS), precisions=rng.uniform(0.1, 5.0, N_ITEMS), alone=width == 1
    )

    both = new_coordinates(start, released, None, settings, remembered=before).measured

    np.testing.assert_allclose(both.precisions, now.precisions + before.precisions)
    sums = now.precisions * now.values + before.precisions * before.values
    np.testing.assert_allclose(both.values, sums / both.precisions)


def test_two_measurements_are_as_near_to_the_truth_as_their_precisions_say() -> None:
    rng = np.random.default_rng(13)
    truth, counts = rng.normal(0.0, 0.5, 4000), rng.uniform(20.0, 60.0, 4000)
    settings = ResidualConfig(noise_variance=1e-9)

    def measured(remembered: Remembered | None) -> Remembered:
        linear = counts * truth + 20.0 * rng.standard_normal(4000)
        released = replace(a_round(rng, linear[:, None], 20.0, 1), moment=np.eye(1), weighted_counts=counts)
        step = new_coordinates(np.zeros((4000, 1)), released, None, settings, remembered=remembered)
        return step.measured

    first = measured(None)
    for found in (first, measured(first)):
        assert np.mean(found.precisions * (found.values - truth) ** 2) == pytest.approx(1.0, abs=0.1)


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


def test_a_round_costs_little_where_its_noise_is_less_than_ratings_scatter() -> None:
    rng = np.random.default_rng(16)
    settings = ResidualConfig(rank=3, noise_variance=0.5)
    released = replace(a_round(rng, np.zeros((N_ITEMS, 1)), 1.0, 1), weighted_counts=np.full(N_ITEMS, 30.0))
    # The edge: what 30 ratings of weight 0.4 scatter along a coordinate of usual length.
    edge = np.sqrt(0.5 * 0.4 * 30.0 * 0.6 * settings.vector_bound**2 / 4)

    for spread in (1.0, 2.0):
        here = replace(released, spread=spread)
        assert costs_little(here, 0.99 * spread * edge, settings, ratings_of_user=1e9)
        assert not costs_little(here, 1.01 * spread * edge, settings, ratings_of_user=1e9)


def test_who_rates_two_things_says_little_of_where_she_stands() -> None:
    """Reliability of a vector that is fitted to ratings, simulated: what of it is the truth's."""
    rng = np.random.default_rng(17)
    for ratings in (2, 20, 200):
        # All of a user's other ratings tell of one direction, as large as is looked for: 3 x 0.1 of spread 2^2.
        truth = rng.normal(0.0, np.sqrt(0.3), 20_000)
        told = truth + rng.normal(0.0, 2.0 / np.sqrt(ratings - 1), 20_000)
        reliability = np.corrcoef(truth, told)[0, 1] ** 2
        assert share_known(0.3 / 4.0, ratings) == pytest.approx(reliability, abs=0.02)
    assert share_known(0.1, 1.0) == share_known(0.0, 50.0) == 0.0

    settings, many = ResidualConfig(), np.full(500, 200.0)
    # Of a rating's variance 0.3 is looked for: half of a vector is known from 1 + 1 / 0.3 ratings on.
    assert not worth_measuring(0.1, many, 0.0, settings, ratings_of_user=4.3, spread=1.0)
    assert worth_measuring(0.1, many, 0.0, settings, ratings_of_user=4.4, spread=1.0)
    released = replace(a_round(rng, np.zeros((N_ITEMS, 1)), 1.0, 1), weighted_counts=np.full(N_ITEMS, 30.0))
    assert not costs_little(released, 0.0, settings, ratings_of_user=4.3)
    assert costs_little(released, 0.0, settings, ratings_of_user=4.4)


def test_items_without_weight_do_not_hide_those_that_have_some() -> None:
    settings, many = ResidualConfig(), np.full(500, 200.0)
    stddev = 12.0

    assert worth_measuring(0.1, many, stddev, settings, **MANY)
    assert worth_measuring(0.1, np.append(many, np.full(20_000, 0.3)), stddev, settings, **MANY)
    assert not worth_measuring(0.1, np.full(20_500, 0.3), stddev, settings, **MANY)
