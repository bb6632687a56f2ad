"""Random ledgers, chosen and stopped anywhere: what is claimed is what was fixed before the first release."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.certificate import Certificate, certify
from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.accounting.budget import (
    Budget,
    budget_epsilon,
    budget_mu,
    budget_point,
    planned_events,
)
from fedboard.common.privacy.accounting.exact import (
    compose_events,
    delta_of,
    epsilon_of,
    epsilon_of_events,
    epsilon_through_renyi,
    epsilon_through_zcdp,
    epsilon_when_adaptive,
)
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import FILTER, PLAN, Commitment, numbers_of
from fedboard.common.privacy.events import digest, is_pure, pure_epsilon
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.exact_curves import gaussian, laplace, sampled

pytestmark = pytest.mark.slow

SOME = settings(max_examples=40, deadline=None)
MULTIPLIERS = st.floats(2.0, 60.0)
KINDS = st.sampled_from(["gaussian", "laplace", "poisson"])
CHOICES = st.lists(st.tuples(KINDS, MULTIPLIERS), max_size=12)
BUDGETS = st.tuples(st.floats(0.2, 8.0), st.sampled_from([1e-4, 1e-5, 1e-7]))


def an_event(kind: str, multiplier: float, number: int) -> dict[str, Any]:
    name = f"release-{number}"
    if kind == "laplace":
        event = laplace(multiplier, name=name)
    elif kind == "gaussian":
        event = gaussian(multiplier, name=name)
    else:
        event = {**sampled(multiplier, probability=0.5), "name": name}
        event["participation"] = {**event["participation"], "round": f"round-{number}"}
    return {**event, **SecureNoise().describe()}


def certificate_of(ledger: Ledger) -> Certificate:
    return certify(ledger.events(), commitment=ledger.commitment, trust=(), assumptions=(), dataset="made up")


def a_budget(given_budget: tuple[float, float]) -> Budget:
    epsilon, delta = given_budget
    return Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.ADD_REMOVE)


def resealed(plain: dict[str, Any]) -> dict[str, Any]:
    content = {key: value for key, value in plain.items() if key != "digest"}
    return {**content, "digest": digest(content)}


@SOME
@given(given_budget=BUDGETS, choices=CHOICES)
def test_without_a_plan_every_ledger_claims_its_budget_wherever_it_stops(
    tmp_path_factory: pytest.TempPathFactory,
    given_budget: tuple[float, float],
    choices: list[tuple[str, float]],
) -> None:
    budget = a_budget(given_budget)
    with Ledger.create(tmp_path_factory.mktemp("ledger") / "ledger", budget) as ledger:
        for number, (kind, multiplier) in enumerate(choices):
            try:
                ledger.book(an_event(kind, multiplier, number))
            except BudgetExceededError:
                continue  # he asks for something else
        certificate, events, spent = certificate_of(ledger), ledger.events(), ledger.spent()

    assert certificate.holds
    assert not certificate.planned
    assert (certificate.claim.epsilon, certificate.claim.delta) == given_budget
    assert spent.epsilon <= budget.epsilon * (1 + 1e-9)
    # Within one of the two limits of the filter, which is what the proof needs.
    pure = all(is_pure(event) for event in events)
    added_up = sum(pure_epsilon(event) for event in events) if pure else float("inf")
    assert min(added_up / budget.epsilon, compose_events(events) / budget_mu(budget)) <= 1 + 1e-8
    for point in certificate.curve:
        assert point.epsilon >= epsilon_when_adaptive(events, point.delta) * (1 - 1e-8) or pure
        assert min(point.epsilon_rdp, point.epsilon_zcdp) >= point.epsilon * (1 - 1e-9)
    assert certificate.implied.pair_epsilon >= 2 * budget.epsilon


@SOME
@given(data=st.data(), multipliers=st.lists(st.floats(4.0, 40.0), min_size=1, max_size=8))
def test_with_a_plan_every_part_of_it_in_any_order_claims_the_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, multipliers: list[float]
) -> None:
    plan = {f"release-{number}": z for number, z in enumerate(multipliers)}
    cost = epsilon_of_events(planned_events(plan, Adjacency.ADD_REMOVE), 1e-5)
    budget = Budget(epsilon=2 * cost, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    order = data.draw(st.permutations(range(len(multipliers))))
    made = data.draw(st.integers(0, len(multipliers)))
    with Ledger.create(tmp_path_factory.mktemp("ledger") / "ledger", budget, plan=plan) as ledger:
        for number in order[:made]:
            ledger.book(an_event("gaussian", multipliers[number], number))
        certificate, spent = certificate_of(ledger), ledger.spent()

    assert certificate.holds
    assert certificate.claim.epsilon == cost >= spent.epsilon
    assert all(finding.passed for finding in certificate.verify(plan=plan))
    for point in certificate.curve:
        assert point.epsilon == epsilon_of_events(planned_events(plan, Adjacency.ADD_REMOVE), point.delta)


@SOME
@given(given_budget=BUDGETS, multipliers=st.lists(st.floats(20.0, 60.0), min_size=1, max_size=6))
def test_a_claim_of_what_was_spent_never_verifies_without_a_plan(
    given_budget: tuple[float, float], multipliers: list[float]
) -> None:
    events = [an_event("gaussian", z, number) for number, z in enumerate(multipliers)]
    spent = epsilon_when_adaptive(events, given_budget[1])
    budget = replace(a_budget(given_budget), epsilon=2 * spent + 0.1)
    honest = certify(
        events, commitment=Commitment.of(budget), trust=(), assumptions=(), dataset="made up"
    ).to_dict()
    lower = {**honest, "claim": {**honest["claim"], "epsilon": spent}}
    tight = copy.deepcopy(lower)
    tight["commitment"]["epsilon"] = spent * (1 - 1e-6)

    for forged in (lower, tight):
        assert not Certificate.from_dict(resealed(forged)).holds


@SOME
@given(given_budget=BUDGETS, delta=st.sampled_from([1e-2, 1e-4, 1e-6, 1e-9]), n_users=st.integers(1, 4))
def test_the_curve_of_a_budget_covers_both_of_its_limits(
    given_budget: tuple[float, float], delta: float, n_users: int
) -> None:
    budget = a_budget(given_budget)
    mu, found = budget_mu(budget), budget_epsilon(budget, delta, n_users=n_users)

    assert budget_epsilon(budget, budget.delta) == budget.epsilon
    assert found >= n_users * budget.epsilon  # k users of a pure run
    assert delta_of(found, mu=n_users * mu) <= delta  # and of a Gaussian one
    assert delta_of(budget.epsilon, mu=mu) <= budget.delta
    point = budget_point(budget, delta)
    assert point.epsilon_rdp >= epsilon_through_renyi(delta, rho=mu * mu / 2)
    assert point.epsilon_zcdp >= epsilon_through_zcdp(delta, rho=mu * mu / 2) * (1 - 1e-12)
    assert point.epsilon >= epsilon_of(delta, mu=mu)


def test_terms_are_the_ledgers_and_survive_json(tmp_path: Path) -> None:
    budget = a_budget((2.0, 1e-5))
    plan = {"a": 9.0, "b": {"noise_multiplier": 8.0, "participation": {"kind": "poisson", "probability": 0.5,
            "round": "r"}}}  # fmt: skip
    with Ledger.create(tmp_path / "planned", budget, plan=plan) as with_plan:
        terms = with_plan.commitment
        certificate = certificate_of(with_plan)
    with Ledger.create(tmp_path / "free", budget) as without:
        assert without.commitment == Commitment(
            rule=FILTER, epsilon=2.0, delta=1e-5, adjacency="add-remove", plan=None
        )
        assert without.claim().epsilon == 2.0

    assert terms == Commitment(rule=PLAN, epsilon=2.0, delta=1e-5, adjacency="add-remove", plan=plan)
    again = Certificate.from_json(json.dumps(json.loads(certificate.to_json())))
    assert again.holds
    assert again.commitment == terms


def test_a_plan_is_claimed_once_so_no_other_run_books_in_its_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    Ledger.create(path, a_budget((5.0, 1e-5)), run="first", plan={"a": 9.0}).close()

    with pytest.raises(InputError, match="that plan is claimed once"):
        Ledger.open(path, run="second")
    with Ledger.open(path, run="first") as ledger:
        ledger.book(an_event("gaussian", 9.0, 0) | {"name": "a"})
        with pytest.raises(PrivacyError, match="booked already"):
            ledger.book(an_event("gaussian", 9.0, 0) | {"name": "a"})


def test_a_plan_that_its_budget_does_not_cover_cannot_be_certified() -> None:
    terms = Commitment.of(a_budget((0.5, 1e-5)), {"a": 1.0})

    with pytest.raises(PrivacyError, match="the whole plan is refused"):
        certify([], commitment=terms, trust=(), assumptions=(), dataset="made up")


@pytest.mark.parametrize(
    ("sound", "other"),
    [
        ({"a": 2.0, "b": 3.0}, {"a": 2.0, "b": 4.0}),
        ({"a": 1.0}, {"a": {"noise_multiplier": 1.0, "participation": {"kind": "sometimes"}}}),
        ({"a": 1.0}, {"a": True}),  # which Python holds to be equal, and an auditor does not
    ],
)
def test_numbers_of_one_plan_are_never_given_for_another(
    sound: dict[str, Any], other: dict[str, Any]
) -> None:
    def numbers(plan: dict[str, Any]) -> object:
        terms = Commitment(rule=PLAN, epsilon=9.0, delta=1e-5, adjacency="add-remove", plan=plan)
        try:
            return terms.numbers(1e-5)
        except PrivacyError as error:
            return str(error)

    events = planned_events(sound, Adjacency.ADD_REMOVE)
    assert numbers(sound) == numbers(copy.deepcopy(sound)) == numbers_of(events, 1e-5)
    assert numbers(other) != numbers(sound)


def test_numbers_that_were_given_out_and_changed_are_not_what_is_given_next() -> None:
    terms = Commitment(rule=PLAN, epsilon=9.0, delta=1e-5, adjacency="add-remove", plan={"a": 2.5})
    given_out, expected = terms.numbers(1e-5), terms.numbers(1e-5).composition.mu

    for part, field in ((given_out.composition, "mu"), (given_out.curve[0], "epsilon")):
        object.__setattr__(part, field, 0.0)

    assert terms.numbers(1e-5).composition.mu == expected > 0.0
    assert terms.numbers(1e-5).curve[0].epsilon > 0.0
