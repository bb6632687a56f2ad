"""Step counts and rates of theorem 3.12, by hand."""

import math

import numpy as np
import pytest

from fedboard.common.per_user.weights import WeightScheme
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.tasks.adadpsgd.update import (
    lipschitz_rates,
    lipschitz_step_count,
    strongly_convex_rates,
    strongly_convex_step_count,
    weight_sums,
)

COUNTS = np.array([10.0, 40.0])
OMEGA = np.array([0.5, 0.25])


def test_step_counts_are_those_of_the_paper_in_its_own_units() -> None:
    mu, rank = 0.8, 5
    beta = mu**2 / 2  # (alpha, alpha beta)-RDP is mu^2 / 2 alpha
    omega = OMEGA * math.sqrt(beta)
    first = 2 / rank * np.sum(COUNTS**2) / np.sum(1 / omega**2)
    second = 2 / rank * COUNTS.sum() / np.sum(1 / (omega**2 * COUNTS))

    assert math.isclose(lipschitz_step_count(mu, rank, COUNTS, OMEGA), first)
    assert math.isclose(strongly_convex_step_count(mu, rank, COUNTS, OMEGA), second)


def test_rates_are_those_of_the_paper_in_its_own_units() -> None:
    """Scaling weights and noise by sqrt(beta) scales the gradient, and the rate back."""
    mu, rank, clip, steps, t = 0.8, 5, 1.5, 50, 3
    root = mu / math.sqrt(2)
    bound = clip * np.sqrt((OMEGA * root * COUNTS) ** 2 + steps * rank / 2)
    paper = 2.0 / bound / math.sqrt(t)
    ours = lipschitz_rates(
        t, diameter=2.0, clip=clip, noise_multiplier=math.sqrt(steps) / mu, rank=rank, pull=OMEGA * COUNTS
    )

    np.testing.assert_allclose(ours, paper * root, rtol=1e-12)
    np.testing.assert_allclose(strongly_convex_rates(4, np.array([2.0])), [0.125])


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (WeightScheme.ADAPTIVE, [30.0, 10.0]),
        (WeightScheme.ADAPTIVE_CLIPPED, [60.0, 20.0]),
        (WeightScheme.UNIFORM, [30.0, 10.0]),
    ],
)
def test_the_sum_of_an_items_weights_is_guessed_for_average_users(
    scheme: WeightScheme, expected: list[float]
) -> None:
    """20 users with 4 ratings each, all weights alike: 1/2 on each item; sampling one of four halves that."""
    settings = AdaDpsgdConfig(weights=scheme, items_per_user=4)
    population = None if scheme is WeightScheme.ADAPTIVE_CLIPPED else 20.0
    found = weight_sums(np.array([60.0, 20.0]), np.ones(2), population, settings)

    np.testing.assert_allclose(found, expected)
    if scheme is WeightScheme.UNIFORM:
        one = weight_sums(
            np.array([60.0, 20.0]), np.ones(2), 20.0, AdaDpsgdConfig(weights=scheme, items_per_user=1)
        )
        np.testing.assert_allclose(one, [15.0, 5.0])
