"""The odds are those that the curve of the mechanism allows, and those of the board page."""

import math

import pytest
from scipy.stats import norm

from fedboard.common.privacy.accounting.exact import delta_of
from fedboard.common.privacy.accounting.guarantee import (
    Composition,
    Guarantee,
    in_hundred,
    right_bets,
    right_bets_of_epsilon,
    right_bets_of_mu,
)


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 3.0, 8.0])
def test_the_best_bet_against_gaussian_noise_is_right_so_often(mu: float) -> None:
    """Who sees N(0, 1) or N(mu, 1), each as likely, does best by asking whether it lies above mu / 2."""
    assert right_bets_of_mu(mu) == pytest.approx(norm.cdf(mu / 2), rel=1e-14)
    assert right_bets_of_mu(mu) == pytest.approx((1 + delta_of(0.0, mu=mu)) / 2, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 5.0, 800.0])
def test_epsilon_and_delta_alone_allow_more_and_never_less(epsilon: float) -> None:
    assert right_bets_of_epsilon(epsilon, 0.0) == pytest.approx(1 / (1 + math.exp(-epsilon)), rel=1e-14)
    mu = 0.7
    assert right_bets_of_epsilon(epsilon, delta_of(epsilon, mu=mu)) >= right_bets_of_mu(mu) * (1 - 1e-12)


def test_mu_counts_only_where_it_is_exact() -> None:
    claim = Guarantee(epsilon=5.0, delta=1e-5, adjacency="add-remove")
    numbers = {"mu": 1.0, "rho": 0.5, "epsilon": 5.0, "epsilon_rdp": 5.0, "epsilon_zcdp": 5.0}

    assert right_bets(claim, Composition(exact=True, **numbers)) == right_bets_of_mu(1.0)
    assert right_bets(claim, Composition(exact=False, **numbers)) == right_bets_of_epsilon(5.0, 1e-5)


def test_a_hundred_bets_are_rounded_up() -> None:
    assert [in_hundred(share) for share in (0.5, 0.501, 0.71, 0.7100001, 1.0)] == [50, 51, 71, 72, 100]
