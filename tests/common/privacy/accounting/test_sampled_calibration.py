"""Calibration on a curve that only an accountant knows, and what a ledger has left, against what it then books."""

import math

import pytest

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import planned_events
from fedboard.common.privacy.accounting.calibration import (
    mu_left,
    noise_multipliers,
    releases_left,
    round_of_release,
    sampled_plan,
)
from fedboard.common.privacy.accounting.exact import epsilon_of_events, mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.exact_curves import gaussian, laplace, sampled

pytestmark = pytest.mark.slow

SHARES = {
    "mean/sum": 0.02,
    "counts": 0.08,
    "round-1/linear": 0.2,
    "round-1/quadratic": 0.1,
    "round-2/linear": 0.6,
}


def poisson(probability):
    return lambda name: {"kind": "poisson", "probability": probability, "round": round_of_release(name)}


def planned(multipliers, participation):
    return planned_events(sampled_plan(multipliers, participation), Adjacency.ADD_REMOVE)


@pytest.mark.parametrize(
    ("epsilon", "probability"),
    [(0.2, 0.02), pytest.param(1.0, 0.95, marks=pytest.mark.thorough), (8.0, 0.1)],
)
def test_a_sampled_plan_spends_the_budget_and_never_exceeds_it(epsilon, probability):
    participation = poisson(probability)

    found = noise_multipliers(epsilon, 1e-5, SHARES, participation=participation)

    spent = epsilon_of_events(planned(found, participation), 1e-5)
    assert epsilon * (1 - 1e-5) <= spent <= epsilon
    assert found["counts"] / found["round-2/linear"] == pytest.approx(math.sqrt(0.6 / 0.08))
    full = noise_multipliers(epsilon, 1e-5, SHARES)
    assert 0.5 * probability * full["counts"] < found["counts"] < full["counts"]


def test_a_little_less_noise_would_exceed_a_sampled_budget():
    participation = poisson(0.1)
    found = noise_multipliers(1.0, 1e-5, SHARES, participation=participation)

    twin = {name: z * 0.999 for name, z in found.items()}

    assert epsilon_of_events(planned(twin, participation), 1e-5) > 1.0


def test_a_ledger_books_a_sampled_plan_to_the_end(tmp_path, make_release):
    participation = poisson(0.2)
    found = noise_multipliers(1.0, 1e-5, SHARES, participation=participation)
    budget = Budget(epsilon=1.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)

    with Ledger.create(tmp_path / "l.sqlite", budget, plan=sampled_plan(found, participation)) as ledger:
        for name, z in found.items():
            release = make_release(name=name, noise_multiplier=z, participation=participation(name))
            ledger.book({**release.event(), "noise": SecureNoise.label, "private": True})

        assert ledger.spent().epsilon == pytest.approx(1.0, rel=1e-5)


def test_participation_without_amplification_needs_the_noise_of_everybody():
    def cohorts(name):
        return {"kind": "shuffled-cohorts", "cohorts": 5, "round": round_of_release(name)}

    assert noise_multipliers(1.0, 1e-5, SHARES, participation=cohorts) == noise_multipliers(1.0, 1e-5, SHARES)


def test_some_releases_can_be_sampled_and_others_not():
    def rounds_only(name):
        return None if round_of_release(name) == "preparation" else poisson(0.1)(name)

    found = noise_multipliers(1.0, 1e-5, SHARES, participation=rounds_only)

    assert 1 - 1e-5 <= epsilon_of_events(planned(found, rounds_only), 1e-5) <= 1.0


def test_half_of_a_sampled_budget_can_be_left_unspent():
    halves = {name: share / 2 for name, share in SHARES.items()}
    participation = poisson(0.1)

    found = noise_multipliers(1.0, 1e-5, halves, participation=participation)

    assert epsilon_of_events(planned(found, participation), 1e-5) < 0.9


@pytest.mark.parametrize(
    ("name", "round_name"),
    [
        ("round-3/linear", "round-3"),
        ("counts", "preparation"),
        ("mean/sum", "preparation"),
        ("moments", "preparation"),
    ],
)
def test_names_tell_rounds_apart(name, round_name):
    assert round_of_release(name) == round_name


def test_what_is_left_of_gaussians_is_the_rest_of_mu_squared():
    events = [gaussian(10.0), gaussian(20.0)]
    left = mu_left(events, 2.0, 1e-5)

    assert left**2 + 0.01 + 0.0025 == pytest.approx(mu_for(2.0, 1e-5) ** 2)
    assert mu_left([gaussian(0.5)], 2.0, 1e-5) == 0.0


@pytest.mark.parametrize(
    "events",
    [[laplace(6.0), gaussian(9.0)], [sampled(3.0)], [gaussian(9.0, adjacency="replace")]],
    ids=["laplace", "sampled", "replace"],
)
def test_as_many_releases_fit_as_a_ledger_books(tmp_path, make_release, events):
    adjacency = Adjacency(events[0]["adjacency"])
    count = releases_left(events, 2.0, 1e-5, noise_multiplier=5.0)
    noise = {"noise": SecureNoise.label, "private": True}
    budget = Budget(epsilon=2.0, delta=1e-5, adjacency=adjacency)

    with Ledger.create(tmp_path / "l.sqlite", budget) as ledger:
        for event in events:
            ledger.book({**event, **noise})
        further = make_release(noise_multiplier=5.0, adjacency=adjacency).event() | noise
        ledger.book_all([{**further, "name": f"more-{number}"} for number in range(count)])

        with pytest.raises(PrivacyError, match="is refused"):
            ledger.book(further)
    assert count > 0


def test_equal_parts_of_a_budget_are_counted_in_spite_of_rounding():
    z = noise_multipliers(1.0, 1e-5, {str(k): 1 / 9 for k in range(9)})["0"]
    events = [gaussian(z, name=str(k)) for k in range(4)]

    assert releases_left(events, 1.0, 1e-5, noise_multiplier=z) == 5
    assert releases_left(events * 3, 1.0, 1e-5, noise_multiplier=z) == 0
    with pytest.raises(PrivacyError, match="noise multiplier"):
        releases_left(events, 1.0, 1e-5, noise_multiplier=0.0)
