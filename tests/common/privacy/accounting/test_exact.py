"""Looser accounting: what it would claim, and how much noise that costs.

The odds are those that the curve of the mechanism allows, and those of the board page.
"""

import math
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from fedboard.common.errors import FedboardError, PrivacyError
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import (
    compose,
    compose_events,
    delta_of,
    epsilon_by_library,
    epsilon_of,
    epsilon_of_events,
    epsilon_through_renyi,
    epsilon_through_zcdp,
    mu_for,
)
from fedboard.common.privacy.accounting.guarantee import (
    Composition,
    Guarantee,
    in_hundred,
    right_bets,
    right_bets_of_epsilon,
    right_bets_of_mu,
)
from fedboard.common.privacy.events import event_mu
from tests.common.privacy.exact_curves import gaussian, laplace
from tests.common.privacy.exact_curves import gaussian_delta as exact_delta

# dp-accounting's own get_sigma_gaussian and a separate bisection agree on these: 1 / mu for (epsilon, 1e-5).
TOTAL_MULTIPLIERS = {1: 3.73063, 5: 0.89187, 20: 0.29004}


@pytest.mark.parametrize("mu", [1e-6, 1e-4, 1e-2, 0.1, 0.268, 1.0, 3.4, 10.0, 25.0, 50.0])
@pytest.mark.parametrize("distance", [-30.0, -5.0, -1.0, -1e-3, 0.0, 1e-3, 0.5, 1.0, 2.0, 4.0, 6.0, 7.9])
def test_delta_is_the_exact_curve_and_never_below_it(mu, distance):
    epsilon = max(mu * distance + mu * mu / 2, 0.0)

    exact = exact_delta(epsilon, mu)
    delta = delta_of(epsilon, mu=mu)

    assert delta >= exact
    assert delta <= exact * (1 + 1e-7) + 1e-21


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1.0, 20.0, 200.0])
@pytest.mark.parametrize("mu", [1e-6, 1e-3, 1.0, 18.0, 50.0, 1e3, 1e200])
def test_delta_is_a_probability_wherever_it_is_asked(epsilon, mu):
    assert 0.0 <= delta_of(epsilon, mu=mu) <= 1.0


def test_no_release_costs_nothing():
    assert delta_of(0.0, mu=0.0) == 0.0
    assert epsilon_of(1e-5, mu=0.0) == 0.0
    assert compose([]) == 0.0
    assert compose_events([]) == 0.0


@settings(max_examples=60, deadline=None)
@given(mu=st.floats(1e-6, 50.0), delta=st.floats(1e-12, 0.5))
def test_epsilon_is_on_the_safe_side_and_tight(mu, delta):
    epsilon = epsilon_of(delta, mu=mu)

    assert exact_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert exact_delta(epsilon * (1 - 1e-6), mu) > delta


@settings(max_examples=60, deadline=None)
@given(epsilon=st.floats(1e-4, 200.0), delta=st.floats(1e-12, 0.5))
def test_mu_is_on_the_safe_side_and_tight(epsilon, delta):
    mu = mu_for(epsilon, delta)

    assert exact_delta(epsilon, mu) <= delta
    assert exact_delta(epsilon, mu * (1 + 1e-7)) > delta
    assert epsilon_of(delta, mu=mu) <= epsilon


@pytest.mark.parametrize(("epsilon", "multiplier"), TOTAL_MULTIPLIERS.items())
def test_known_total_noise_multipliers_are_found(epsilon, multiplier):
    assert 1 / mu_for(epsilon, 1e-5) == pytest.approx(multiplier, abs=5e-6)


def test_loss_distributions_agree_and_renyi_is_looser():
    events = [gaussian(4.0871)] * 21

    exact = epsilon_of(1e-5, mu=compose_events(events))

    assert epsilon_by_library(events, 1e-5, accountant="pld") == pytest.approx(exact, rel=1e-4)
    assert epsilon_by_library(events, 1e-5, accountant="rdp") == pytest.approx(5.3956, rel=1e-4)
    assert exact == pytest.approx(5.0, rel=1e-4)


def test_releases_with_different_noise_compose_as_the_library_composes_them():
    events = [gaussian(z) for z in (3.0, 5.0, 8.0, 20.0)]

    exact = epsilon_of(1e-6, mu=compose_events(events))

    assert epsilon_by_library(events, 1e-6) == pytest.approx(exact, rel=1e-4)
    assert epsilon_by_library(events, 1e-6, accountant="rdp") > exact


@pytest.mark.parametrize("multipliers", [(20.0,), (2.0,), (5.0, 10.0)])
def test_with_laplace_releases_our_epsilon_is_an_upper_bound_of_the_library(multipliers):
    events = [gaussian(4.0)] * 3 + [laplace(z) for z in multipliers]

    ours = epsilon_of(1e-5, mu=compose_events(events))
    theirs = epsilon_by_library(events, 1e-5)

    assert theirs < ours < 1.5 * theirs


def test_recorded_events_use_the_exact_curve_or_the_library():
    gaussians = [gaussian(z) for z in (3.0, 5.0)]
    mixed = [*gaussians, laplace(20.0)]

    assert epsilon_of_events(gaussians, 1e-5) == epsilon_of(1e-5, mu=compose([3.0, 5.0]))
    assert epsilon_of_events(mixed, 1e-5) == epsilon_by_library(mixed, 1e-5, accountant="pld")
    assert epsilon_of_events(mixed, 1e-5) > epsilon_of_events(gaussians, 1e-5)


@pytest.mark.parametrize("loss", [1e-12, 1e-6, 0.9e-3, 1.1e-3, 0.1, 1.0, 5.0, 30.0, 800.0])
def test_the_gaussian_equivalent_of_a_laplace_release_covers_pure_privacy(loss):
    mu = event_mu(laplace(1 / loss))

    with mpmath.workdps(60):
        fixed_point = 1 / (1 + mpmath.exp(mpmath.mpf(1) / mpmath.mpf(1 / loss)))
        # The trade-off curve of mu-GDP at its fixed point must not lie above that of pure privacy.
        quantile = mpmath.mpf(mu) / 2
        assert mpmath.erfc(quantile / mpmath.sqrt(2)) / 2 <= fixed_point
        assert mpmath.erfc(quantile * (1 - 1e-6) / mpmath.sqrt(2)) / 2 > fixed_point


@pytest.mark.parametrize("noise_multiplier", [0.0, -1.0, math.inf, math.nan])
def test_a_release_without_finite_noise_is_never_composed_as_free(noise_multiplier):
    with pytest.raises(PrivacyError, match="> 0"):
        compose([4.0, noise_multiplier])
    for composed in (compose_events, lambda events: epsilon_by_library(events, 1e-5)):
        with pytest.raises(PrivacyError, match="noise_multiplier"):
            composed([gaussian(noise_multiplier)])


def test_noise_too_small_to_count_is_refused():
    with pytest.raises(PrivacyError, match="mu"):
        compose([1e-200])


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_delta_outside_the_unit_interval_is_refused(delta):
    for refused in (
        lambda: epsilon_of(delta, mu=1.0),
        lambda: mu_for(1.0, delta),
        lambda: epsilon_by_library([gaussian(1.0)], delta),
    ):
        with pytest.raises(PrivacyError, match="delta must be"):
            refused()


@pytest.mark.parametrize(("epsilon", "mu"), [(-1.0, 1.0), (math.nan, 1.0), (1.0, math.inf), (1.0, -1.0)])
def test_numbers_without_a_meaning_are_refused(epsilon, mu):
    with pytest.raises(PrivacyError, match="must be a finite number >= 0"):
        delta_of(epsilon, mu=mu)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)

    with pytest.raises(FedboardError, match=r"pip install 'fedboard\[pld\]'"):
        epsilon_by_library([gaussian(1.2345)], 1e-5)


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
    def spent(conversion, noise_multiplier):
        return conversion(1e-5, rho=1 / (2 * noise_multiplier**2))

    assert spent(epsilon_through_renyi, library) <= epsilon
    assert spent(epsilon_through_renyi, library * (1 - 1e-3)) > epsilon, (
        "the best order needs hardly less noise"
    )
    assert spent(epsilon_through_renyi, 1.045 / mu_for(epsilon, 1e-5)) > epsilon
    assert spent(epsilon_through_zcdp, mironov) == pytest.approx(epsilon, rel=5e-5)


def test_nothing_released_converts_to_nothing():
    assert epsilon_through_renyi(1e-5, rho=0.0) == epsilon_through_zcdp(1e-5, rho=0.0) == 0.0


@pytest.mark.parametrize("rho", [-1.0, math.inf, math.nan])
def test_conversions_without_a_meaning_are_refused(rho):
    for conversion in (epsilon_through_renyi, epsilon_through_zcdp):
        with pytest.raises(PrivacyError, match="rho"):
            conversion(1e-5, rho=rho)
        with pytest.raises(PrivacyError, match="delta"):
            conversion(0.0, rho=1.0)


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


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1, 17.0959), (5, 4.0871), (20, 1.3291)])
def test_equal_shares_give_the_known_multipliers(epsilon, multiplier):
    shares = {f"release-{k}": 1 / 21 for k in range(21)}

    assert noise_multipliers(epsilon, 1e-5, shares)["release-4"] == pytest.approx(multiplier, abs=5e-5)


@settings(max_examples=50, deadline=None)
@given(
    epsilon=st.floats(0.01, 50.0),
    parts=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30),
)
def test_shares_of_one_spend_the_budget_and_never_exceed_it(epsilon, parts):
    shares = {str(k): part / sum(parts) for k, part in enumerate(parts)}

    spent = epsilon_of(1e-5, mu=compose(noise_multipliers(epsilon, 1e-5, shares).values()))

    assert spent == pytest.approx(epsilon, rel=1e-9)
    assert spent <= epsilon * (1 + 1e-9)


def test_a_share_is_a_share_of_mu_squared():
    found = noise_multipliers(2.0, 1e-6, {"counts": 0.2, "items": 0.8})
    alone = noise_multipliers(2.0, 1e-6, {"all": 1.0})["all"]

    assert found["counts"] == pytest.approx(alone / math.sqrt(0.2))
    assert found["items"] == pytest.approx(alone / math.sqrt(0.8))


def test_budget_that_is_not_shared_out_is_left_unspent():
    half = noise_multipliers(2.0, 1e-6, {"items": 0.5})

    assert epsilon_of(1e-6, mu=compose(half.values())) < 1.5


def test_a_sum_above_one_by_rounding_is_scaled_back():
    found = noise_multipliers(1.0, 1e-5, {"a": 0.5, "b": 0.5 + 5e-10})

    assert epsilon_of(1e-5, mu=compose(found.values())) <= 1.0 + 1e-12


@pytest.mark.parametrize("shares", [{"a": 0.0}, {"a": -0.1}, {"a": math.nan}, {"a": math.inf}])
def test_a_share_that_is_not_positive_is_refused(shares):
    with pytest.raises(PrivacyError, match="share of release 'a'"):
        noise_multipliers(1.0, 1e-5, shares)


def test_shares_above_one_are_refused():
    with pytest.raises(PrivacyError, match="at most 1"):
        noise_multipliers(1.0, 1e-5, {"a": 0.6, "b": 0.6})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_without_meaning_is_refused(epsilon):
    with pytest.raises(PrivacyError, match="epsilon"):
        noise_multipliers(epsilon, 1e-5, {"a": 1.0})
