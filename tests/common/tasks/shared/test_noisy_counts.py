"""Counts behind released counts: better than what was released, whatever they are like."""

import numpy as np
import pytest

from fedboard.common.tasks.shared.levels import likely_counts

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


def test_a_larger_release_is_never_a_smaller_count() -> None:
    released = np.random.default_rng(0).normal(3.0, 4.0, 500)

    found = likely_counts(np.sort(released), stddev=2.0)

    assert np.all(np.diff(found.mean) > -1e-9)
