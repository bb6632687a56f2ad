"""Looser accounting: what it would claim, and how much noise that costs."""

import math

import numpy as np
import pytest

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.exact import (
    epsilon_by_library,
    epsilon_of,
    epsilon_through_renyi,
    epsilon_through_zcdp,
    mu_for,
    rho_through,
)
from tests.common.privacy.exact_curves import gaussian


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.036, 1.0, 6.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_the_best_order_is_found(rho, delta):
    orders = 1 + np.exp(np.linspace(-12, min(math.log(1 / delta), 16), 200_000))
    over_orders = rho * orders + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)

    found = epsilon_through_renyi(delta, rho=rho)

    assert found <= max(float(over_orders.min()), 0.0) + 1e-12
    assert found == pytest.approx(max(float(over_orders.min()), 0.0), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("mu", [0.05, 0.268, 1.12, 3.45])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_conversions_are_ordered_and_the_library_agrees(mu, delta):
    exact = epsilon_of(delta, mu=mu)
    renyi = epsilon_through_renyi(delta, rho=mu * mu / 2)
    zcdp = epsilon_through_zcdp(delta, rho=mu * mu / 2)
    library = epsilon_by_library([gaussian(1 / mu)], delta, accountant="rdp")

    assert exact < renyi <= library * (1 + 1e-12) < zcdp
    assert library == pytest.approx(renyi, rel=3e-2)  # it has a list of orders


# Total noise multipliers 1 / mu from dp-accounting and from Mironov's conversion, for (epsilon, 1e-5).
@pytest.mark.parametrize(
    ("epsilon", "library", "mironov"),
    [(1, 4.04539, 4.90056), (5, 0.95264, 1.05453), (20, 0.30452, 0.31844)],
)
def test_known_noise_of_looser_accounting_is_found(epsilon, library, mironov):
    renyi = 1 / math.sqrt(2 * rho_through(epsilon_through_renyi, epsilon, 1e-5))
    zcdp = 1 / math.sqrt(2 * rho_through(epsilon_through_zcdp, epsilon, 1e-5))

    assert renyi == pytest.approx(library, rel=1e-3)
    assert renyi <= library
    assert zcdp == pytest.approx(mironov, rel=2e-5)
    assert renyi > 1.045 / mu_for(epsilon, 1e-5)


@pytest.mark.parametrize("conversion", [epsilon_through_renyi, epsilon_through_zcdp])
def test_rho_is_the_inverse_from_the_safe_side(conversion):
    for epsilon in (0.01, 1.0, 30.0):
        rho = rho_through(conversion, epsilon, 1e-6)

        assert epsilon * (1 - 1e-9) < conversion(1e-6, rho=rho) <= epsilon


def test_nothing_released_converts_to_nothing():
    assert epsilon_through_renyi(1e-5, rho=0.0) == epsilon_through_zcdp(1e-5, rho=0.0) == 0.0


@pytest.mark.parametrize("rho", [-1.0, math.inf, math.nan])
def test_numbers_without_a_meaning_are_refused(rho):
    for conversion in (epsilon_through_renyi, epsilon_through_zcdp):
        with pytest.raises(PrivacyError, match="rho"):
            conversion(1e-5, rho=rho)
        with pytest.raises(PrivacyError, match="delta"):
            conversion(0.0, rho=1.0)
    with pytest.raises(PrivacyError, match="epsilon"):
        rho_through(epsilon_through_zcdp, rho, 1e-5)
