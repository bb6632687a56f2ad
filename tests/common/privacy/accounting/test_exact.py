import math
import sys
import warnings

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.errors import FedboardError, PrivacyError
from fedboard.common.privacy.accounting.exact import (
    compose,
    compose_events,
    delta_of,
    epsilon_by_library,
    epsilon_of,
    epsilon_of_events,
    mu_for,
)
from fedboard.common.privacy.events import event_mu
from tests.common.privacy.exact_curves import gaussian, laplace
from tests.common.privacy.exact_curves import gaussian_delta as exact_delta

# dp-accounting's own get_sigma_gaussian and a separate bisection agree on these: 1 / mu for (epsilon, 1e-5).
TOTAL_MULTIPLIERS = {1: 3.73063, 5: 0.89187, 20: 0.29004}


def library():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dp_accounting
    return dp_accounting


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


@pytest.mark.parametrize(
    ("epsilon", "n_releases", "multiplier"),
    [
        (1, 21, 17.0959),
        (5, 21, 4.0871),
        (20, 21, 1.3291),
        (1, 31, 20.7713),
        (5, 31, 4.9657),
        (20, 31, 1.6149),
    ],
)
def test_known_multipliers_of_equal_releases_spend_the_whole_budget(epsilon, n_releases, multiplier):
    assert epsilon_of(1e-5, mu=compose([multiplier] * n_releases)) == pytest.approx(epsilon, rel=2e-4)


@pytest.mark.parametrize("noise_multiplier", [0.3, 1.0, 3.73063, 40.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_one_gaussian_agrees_with_the_exact_formula_of_dp_accounting(noise_multiplier, delta):
    theirs = library().get_epsilon_gaussian(noise_multiplier, delta)

    assert epsilon_of(delta, mu=compose([noise_multiplier])) == pytest.approx(theirs, rel=1e-6, abs=1e-9)


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
