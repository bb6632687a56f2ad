"""Disjoint cohorts: each user answers once a pass, and what is accounted is the costliest cohort, never less."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.participation.ledger import DeviceLedger
from fedboard.common.certificate import certify
from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, compose_events, epsilon_by_library, epsilon_of
from fedboard.common.privacy.accounting.grouping import most_exposed
from fedboard.common.privacy.accounting.guarantee import composition_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event, event_problems
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import SeededNoise
from research.jain.methods import DisjointCohorts

DELTA = 1e-6


def release(
    name: str, z: float = 2.0, *, cohort: int | None = None, cohorts: int = 3, of: str = "pass-1"
) -> GaussianRelease:
    stated = {"kind": "disjoint", "cohort": cohort, "cohorts": cohorts, "round": of}
    return GaussianRelease(
        name=name,
        rows=1,
        width=4,
        layout="vector",
        grid_step=1.0,
        l2_bound=1024,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=z,
        covers="a test",
        participation=None if cohort is None else stated,
    )


def events(*releases: GaussianRelease) -> list[Event]:
    return [each.event() for each in releases]


def test_each_user_takes_part_once_a_pass_and_always_in_her_cohort() -> None:
    drawn = DisjointCohorts(3)
    noise = SeededNoise(0)
    assert drawn.rows(10, noise, "preparation") is None

    taken = np.array([drawn.rows(10, noise, f"round-{t}").rows(0, 10) for t in range(1, 7)])

    np.testing.assert_array_equal(taken[:3].sum(axis=0), np.ones(10))
    np.testing.assert_array_equal(taken[3:], taken[:3])
    fields = [drawn.event_field(f"round-{t}") for t in (1, 3, 4)]
    assert [(f["cohort"], f["round"]) for f in fields if f] == [(0, "pass-1"), (2, "pass-1"), (0, "pass-2")]


@pytest.mark.parametrize("cohorts", [1, 0, True])
def test_fewer_than_two_cohorts_are_refused(cohorts: int) -> None:
    with pytest.raises(InputError, match="cohorts"):
        DisjointCohorts(cohorts)


def test_the_costliest_cohort_of_each_pass_counts_and_everything_else_in_full() -> None:
    booked = events(
        release("all", 4.0),
        release("a", 3.0, cohort=0),
        release("b", 2.0, cohort=1),
        release("b-more", 2.5, cohort=1),
        release("c", 2.0, cohort=2),
        release("again", 5.0, cohort=0, of="pass-2"),
    )

    assert [event["name"] for event in most_exposed(booked)] == ["all", "b", "b-more", "again"]
    mu = compose([4.0, 2.0, 2.5, 5.0])
    assert compose_events(booked) == pytest.approx(mu, rel=1e-12)
    stated = composition_of(booked, DELTA)
    assert stated.exact
    assert (stated.mu, stated.rho) == (pytest.approx(mu), pytest.approx(mu**2 / 2))
    assert stated.epsilon == pytest.approx(epsilon_of(DELTA, mu=mu), rel=1e-9)
    assert epsilon_by_library(booked, DELTA) == pytest.approx(stated.epsilon, rel=1e-3)


def test_releases_that_all_ask_one_cohort_add_up() -> None:
    """The negative control: a pass is no discount for the users who are asked again and again."""
    same = events(*(release(f"r{t}", 2.0, cohort=1) for t in range(4)))
    apart = events(*(release(f"r{t}", 2.0, cohort=t, cohorts=4) for t in range(4)))

    assert compose_events(same) == pytest.approx(2 * compose_events(apart))


def test_no_user_loses_more_than_is_accounted_whatever_the_order() -> None:
    rng = np.random.default_rng(0)
    for trial in range(50):
        booked = events(
            *(release(f"r{k}", float(rng.uniform(1, 6)), cohort=int(rng.integers(3))) for k in range(8))
        )
        accounted = compose_events(booked)
        for cohort in range(3):
            hers = [e["noise_multiplier"] for e in booked if e["participation"]["cohort"] == cohort]
            assert not hers or compose(hers) <= accounted * (1 + 1e-12), trial


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cohort": 3}, "below 3"),
        ({"cohort": -1}, "cohort"),
        ({"cohorts": 0}, "cohorts"),
        ({"round": ""}, "round"),
        ({"extra": 1}, "unknown"),
    ],
)
def test_events_that_state_no_cohort_are_refused(change: dict[str, object], said: str) -> None:
    event = release("a", cohort=0).event()
    event["participation"] = {**event["participation"], **change}

    assert any(said in problem for problem in event_problems(event))


def test_laplace_noise_with_cohorts_is_refused() -> None:
    event = {
        "mechanism": "laplace",
        "name": "a",
        "covers": "a test",
        "adjacency": "add-remove",
        "noise_multiplier": 1.0,
        "l1_sensitivity": 1.0,
        "noise_scale": 1.0,
        "participation": {"kind": "disjoint", "cohort": 0, "cohorts": 2, "round": "pass-1"},
    }

    assert any("gaussian only" in problem for problem in event_problems(event))


def test_one_pass_has_one_number_of_cohorts() -> None:
    with pytest.raises(PrivacyError, match="same participation"):
        composition_of(events(release("a", cohort=0), release("b", cohort=1, cohorts=4)), DELTA)


def test_a_ledger_books_cohorts_side_by_side_up_to_its_budget_and_no_further(tmp_path: Path) -> None:
    epsilon = epsilon_of(DELTA, mu=compose([2.0])) * (1 + 1e-9)
    budget = Budget(epsilon=epsilon, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(tmp_path / "ledger.sqlite", budget) as ledger:
        for cohort in range(3):
            release(f"r{cohort}", cohort=cohort).book(ledger, SeededNoise(0))
        with pytest.raises(BudgetExceededError):
            release("again", cohort=1).book(ledger, SeededNoise(0))
        assert ledger.spent().epsilon == pytest.approx(epsilon, rel=1e-6)
        certificate = certify(
            ledger.events(), commitment=ledger.commitment, trust=(), assumptions=(), dataset="a test"
        )
    assert certificate.holds

    releases = ({**certificate.releases[0], "participation": None}, *certificate.releases[1:])
    assert not replace(certificate, releases=releases).holds


def test_a_device_counts_what_it_answers_in_full_whatever_cohorts_a_server_names(tmp_path: Path) -> None:
    limit = Budget(epsilon=100.0, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    requests = [Request(source=SumSource.TOTAL, release=release(f"r{k}", cohort=k)) for k in range(3)]

    with closing(DeviceLedger.create(tmp_path / "device.sqlite", limit)) as own:
        own.admit("a run", requests)

        assert own.spent().epsilon == pytest.approx(epsilon_of(DELTA, mu=compose([2.0] * 3)), rel=1e-9)
