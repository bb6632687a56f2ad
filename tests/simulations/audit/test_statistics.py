"""The tests of noise: right numbers pass, wrong ones do not, in both directions."""

import numpy as np
import pytest
from scipy import stats

from fedboard.simulations.audit.statistics import relation_p, shape_p, spread_p

LEVEL = 1e-6
N_DRAWS = 1 << 13


def draws(seed: int, n_draws: int = N_DRAWS) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n_draws)


@pytest.mark.parametrize("seed", range(20))
def test_standard_normal_numbers_pass(seed: int) -> None:
    assert min(shape_p(draws(seed)), spread_p(draws(seed)), relation_p(draws(seed), draws(seed + 99))) > LEVEL


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_deviation_that_is_off_by_a_tenth_is_refused(factor: float) -> None:
    assert spread_p(factor * draws(0)) < LEVEL
    assert shape_p(factor * draws(0, 1 << 16)) < LEVEL


def test_another_shape_of_the_same_spread_is_refused() -> None:
    laplace = np.random.default_rng(0).laplace(scale=2**-0.5, size=N_DRAWS)

    assert shape_p(laplace) < LEVEL


def test_numbers_that_repeat_are_refused_also_with_another_sign_and_a_little_noise() -> None:
    assert relation_p(draws(0), draws(0)) < LEVEL
    assert relation_p(draws(0), -draws(0)) < LEVEL
    assert relation_p(draws(0), 0.1 * draws(0) + draws(1)) < LEVEL


def test_shape_is_the_test_of_kolmogorov_and_smirnov() -> None:
    assert shape_p(draws(4)) == pytest.approx(stats.kstest(draws(4), "norm").pvalue, rel=0.02)


def test_spread_is_the_chi_squared_test() -> None:
    tail = stats.chi2.sf(np.sum(draws(4) ** 2), N_DRAWS)

    assert spread_p(draws(4)) == pytest.approx(2 * min(tail, 1 - tail))


def test_nothing_to_compare_is_no_surprise() -> None:
    assert relation_p(np.empty(0), draws(0)) == 1.0
