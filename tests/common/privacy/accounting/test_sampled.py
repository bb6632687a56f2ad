"""Poisson participation: accounted as run, held against curves that are integrated from first principles.

Calibration on a curve that only an accountant knows, and what a ledger has left, against what it then books.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from scipy.integrate import dblquad

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import planned_events
from fedboard.common.privacy.accounting.calibration import (
    mu_left,
    noise_multipliers,
    releases_left,
    round_of_release,
    sampled_plan,
)
from fedboard.common.privacy.accounting.exact import (
    compose_events,
    epsilon_by_library,
    epsilon_of,
    epsilon_of_events,
    mu_for,
)
from fedboard.common.privacy.accounting.grouping import Mechanisms, SampledRound, cell_width, mechanisms_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import event_mu
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.exact_curves import (
    gaussian,
    laplace,
    sampled,
    sampled_delta,
    smallest_epsilon,
    two_rounds_delta,
)

pytestmark = pytest.mark.slow

DIRECTIONS = ("removed", "added")


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("noise_multiplier", [0.7, pytest.param(1.0, marks=pytest.mark.thorough), 4.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_one_round_has_the_curve_of_the_mixture_and_not_less(
    probability: float, noise_multiplier: float, delta: float
) -> None:
    exact = max(
        smallest_epsilon(
            lambda e, user_is=user_is: sampled_delta(e, 1 / noise_multiplier, probability, user_is=user_is),
            delta,
        )
        for user_is in DIRECTIONS
    )

    ours = epsilon_of_events([sampled(noise_multiplier, probability=probability)], delta)

    assert exact - 1e-12 <= ours <= exact + 1e-6


@pytest.mark.parametrize(
    ("first", "second"),
    [((1.0, 0.1), (1.0, 0.1)), ((1.0, 0.1), (0.5, 0.3)), ((0.3, 0.01), (2.0, 0.01))],
)
def test_two_rounds_compose_as_the_integral_over_the_first_says(
    first: tuple[float, float], second: tuple[float, float]
) -> None:
    exact = max(
        smallest_epsilon(lambda e, user_is=user_is: two_rounds_delta(e, first, second, user_is=user_is), 1e-5)
        for user_is in DIRECTIONS
    )
    events = [
        sampled(1 / mu, probability=q, round_name=f"round-{number}")
        for number, (mu, q) in enumerate((first, second))
    ]

    assert exact <= epsilon_of_events(events, 1e-5) <= exact + 1e-6


def delta_of_one_coin(epsilon: float, mus: tuple[float, float], probability: float) -> float:
    """Removal of a user from two releases under one coin, integrated over both of them."""

    def loss_above(y: float, x: float) -> float:
        density = math.exp(-(x * x + y * y) / 2) / (2 * math.pi)
        exponent = mus[0] * x + mus[1] * y - (mus[0] ** 2 + mus[1] ** 2) / 2
        return density * max(1 + probability * math.expm1(exponent) - math.exp(epsilon), 0.0)

    return float(dblquad(loss_above, -9, 11, -9, 11, epsabs=1e-9)[0])


def test_releases_of_a_round_share_its_coin() -> None:
    multipliers, probability = (1.0, 1.5), 0.1
    one_round = [sampled(z, probability=probability, name=f"r{z}") for z in multipliers]
    epsilon = epsilon_of_events(one_round, 1e-3)

    exact = delta_of_one_coin(epsilon, (1 / multipliers[0], 1 / multipliers[1]), probability)
    coins_of_their_own = [sampled(z, probability=probability, round_name=f"round-{z}") for z in multipliers]

    assert exact == pytest.approx(1e-3, rel=1e-3)
    # A twin that tosses one coin a release claims less than one coin a round costs.
    assert epsilon_of_events(coins_of_their_own, 1e-3) < 0.95 * epsilon


def test_releases_of_a_round_are_one_gaussian() -> None:
    parts = [sampled(3.0, name="a"), sampled(4.0, name="b")]
    whole = [sampled(12.0 / 5.0)]

    assert mechanisms_of(parts).sampled[0].mu == pytest.approx(mechanisms_of(whole).sampled[0].mu)
    assert epsilon_of_events(parts, 1e-5) == pytest.approx(epsilon_of_events(whole, 1e-5), rel=1e-9)


def test_a_part_of_a_round_costs_what_it_is_and_the_rest_adds_to_it() -> None:
    events = [
        sampled(3.0, name="a"),
        sampled(4.0, name="b"),
        sampled(2.0, name="a", round_name="round-2"),
        gaussian(20.0, name="full"),
        sampled(2.5, name="b", round_name="round-2"),
    ]
    spent = [epsilon_of_events(events[:number], 1e-5) for number in range(len(events) + 1)]

    assert spent[0] == 0.0
    assert all(later > earlier for earlier, later in pairwise(spent))
    assert mechanisms_of(events[:1]).sampled == (SampledRound(probability=0.1, mu=1 / 3),)


def test_the_order_of_booking_changes_no_digit() -> None:
    events = [
        sampled(3.0, name="a"),
        sampled(1.7, round_name="round-2", probability=0.2),
        gaussian(9.1),
        laplace(30.0),
        sampled(4.3, name="b"),
        gaussian(7.7),
    ]

    assert epsilon_of_events(events, 1e-5) == epsilon_of_events(events[::-1], 1e-5)


@pytest.mark.parametrize(
    "kind", [{"kind": "fixed-size", "size": 10}, {"kind": "shuffled-cohorts", "cohorts": 9}]
)
def test_other_ways_of_taking_part_are_not_amplified(kind: dict[str, Any]) -> None:
    stated = {**kind, "round": "round-1"}
    terms = {"adjacency": "replace", "participation": stated}
    events = [gaussian(3.0, name="a", **terms), gaussian(4.0, name="b", **terms)]

    assert epsilon_of_events(events, 1e-5) == epsilon_of(1e-5, mu=compose_events(events))
    assert epsilon_of_events(events, 1e-5) == epsilon_of_events([gaussian(3.0), gaussian(4.0)], 1e-5)


def test_sampling_never_costs_more_than_asking_everybody() -> None:
    for probability in (0.999999, 0.5, 0.001):
        events = [sampled(1.0, probability=probability, round_name=str(n)) for n in range(3)]
        everybody = epsilon_of(1e-5, mu=compose_events(events))

        assert 0 < epsilon_of_events(events, 1e-5) <= everybody
        assert event_mu(events[0]) == 1.0
    assert epsilon_of_events([sampled(1.0, probability=0.999999)], 1e-5) == pytest.approx(
        epsilon_of_events([gaussian(1.0)], 1e-5), rel=1e-5
    )


def test_events_that_cannot_be_one_round_are_refused() -> None:
    other_terms = [sampled(1.0, name="a"), sampled(1.0, name="b", probability=0.2)]
    disjoint = {"kind": "disjoint", "cohort": 0, "cohorts": 2, "round": "round-1"}
    other_kind = gaussian(1.0, participation=disjoint)
    twice = [sampled(1.0, name="a"), sampled(1.0, name="a")]

    for events in (other_terms, [sampled(1.0, name="a"), other_kind]):
        with pytest.raises(PrivacyError, match="do not state the same participation"):
            epsilon_of_events(events, 1e-5)
    with pytest.raises(
        PrivacyError, match="release a more than once; name the rounds of different runs apart"
    ):
        epsilon_of_events(twice, 1e-5)


def mixed() -> Iterator[Any]:
    """Ledgers by what is in them."""
    yield pytest.param([gaussian(4.0), laplace(10.0)], id="gaussian+laplace")
    yield pytest.param([laplace(5.0), laplace(5.0), laplace(9.0)], id="laplace")
    yield pytest.param([sampled(2.0), gaussian(6.0)], id="sampled+gaussian")
    yield pytest.param([sampled(2.0), laplace(8.0)], id="sampled+laplace")
    yield pytest.param([sampled(1.5, round_name=str(n), probability=0.05) for n in range(30)], id="30 rounds")
    replaced = [gaussian(4.0, adjacency="replace"), laplace(10.0, adjacency="replace")]
    yield pytest.param(replaced, id="replace")


@pytest.mark.parametrize("events", [*mixed()])
@pytest.mark.parametrize("delta", [1e-6])
def test_loss_distributions_renyi_orders_and_the_gaussian_bound_agree_in_order(
    events: list[dict[str, Any]], delta: float
) -> None:
    tight = epsilon_by_library(events, delta, accountant="pld")
    renyi = epsilon_by_library(events, delta, accountant="rdp")
    bound = epsilon_of(delta, mu=compose_events(events))

    assert epsilon_of_events(events, delta) == tight
    assert tight < renyi
    assert tight < bound


@pytest.mark.parametrize("same_sign", [False, True])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_all_accountants_agree_under_both_adjacencies(adjacency: str, same_sign: bool) -> None:
    events = [gaussian(z, adjacency=adjacency, same_sign=same_sign) for z in (3.0, 5.0, 8.0)]
    exact = epsilon_of_events(events, 1e-5)

    # The multiplier is relative to the sensitivity under the event's own adjacency: the same answer for both.
    assert exact == epsilon_of_events([gaussian(z) for z in (3.0, 5.0, 8.0)], 1e-5)
    assert exact <= epsilon_by_library(events, 1e-5) <= exact * (1 + 1e-6)
    assert exact < epsilon_by_library(events, 1e-5, accountant="rdp") < 1.15 * exact


def test_cells_follow_the_widest_loss_and_stay_few() -> None:
    for mu in (1e-3, 0.1, 1.0, 10.0, 1e3):
        one = Mechanisms(gaussian_mu=mu, laplace=(), sampled=())

        assert 5e4 < (mu * mu + 28 * mu) / cell_width(one) < 5e5
    assert cell_width(Mechanisms(gaussian_mu=0.1, laplace=(1e-3,), sampled=())) == pytest.approx(
        2000 / 1e5, rel=0.5
    )


AT_THE_CORNERS = [(0.001, 1.4), (0.3, 0.6), (0.9, 0.05)]
BETWEEN = [(0.001, 0.05), (0.001, 0.6), (0.3, 0.05), (0.3, 1.4), (0.9, 0.6), (0.9, 1.4)]


@pytest.mark.parametrize(
    ("probability", "mu"),
    [*AT_THE_CORNERS, *(pytest.param(*between, marks=pytest.mark.thorough) for between in BETWEEN)],
)
def test_the_second_opinion_is_given_without_complaints(
    probability: float, mu: float, caplog: pytest.LogCaptureFixture
) -> None:
    events = [sampled(1 / mu, probability=probability, round_name=str(number)) for number in range(3)]
    tight = epsilon_of_events(events, 1e-5)

    assert tight < epsilon_by_library(events, 1e-5, accountant="rdp") < math.inf
    assert not caplog.records


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
