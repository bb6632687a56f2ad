"""The privacy budget that a ledger keeps to.

What a budget promises where it is checked before each release, and nothing else was fixed beforehand.

Such a check is a *filter*: releases may be chosen, and the run may be stopped, by what earlier ones showed, and
what holds is the budget. It is not an *odometer*: what was spent when one stopped is no guarantee, because one
could have stopped where the outcomes suited. (Who stops at the best moment within 400 releases of mu 0.2, and
claims what they cost by then at delta 1e-5, is wrong with delta 1.5e-4.)

The filter lets a release through as long as all of them, with it, are within one of two limits:

* as Gaussian ones: ``sum mu_k^2 <= mu^2``, where mu-GDP is (epsilon, delta)-DP exactly;
* all of them pure: ``sum epsilon_k <= epsilon``.

Both together are (epsilon, delta)-DP: where the outcome lies within the second limit, the loss is at most epsilon
for certain, so it adds nothing to delta; all other outcomes are those of a run that the first limit alone would
have let through, which is mu-GDP. By the same two cases, at another delta epsilon is the larger of the budget's and
of what the curve of mu says there, and k users together have the larger of ``k epsilon`` and of the curve of
``k mu``. The budget's delta must be fixed beforehand, since mu follows from it.

Reference: Rogers, Roth, Ullman and Vadhan (2016), arXiv:1605.08294 (filters and odometers); Smith and Thakurta
(2022), arXiv:2210.17520 (the filter of GDP).

The plan of a run: which releases it will make and with how much noise, fixed before it starts.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fedboard.common.errors import BudgetExceededError, OutOfRangeError, PrivacyError
from fedboard.common.privacy.accounting.exact import (
    epsilon_of,
    epsilon_through_renyi,
    epsilon_through_zcdp,
    mu_for,
    require_delta,
)
from fedboard.common.privacy.accounting.guarantee import PAIR, Composition, CurvePoint, Implied
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency, sensitivity_factor
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, Event, is_amplified, release_shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What all releases of a ledger together may cost. Every field is public."""

    epsilon: float
    """Privacy loss bound, natural-log units; > 0."""
    delta: float
    """Probability that the bound fails; in (0, 1), well below 1 / n_users."""
    adjacency: Adjacency
    """What neighbouring means; every release must use the same."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            PrivacyError: a number is out of range or the adjacency is unknown.
        """
        if not 0 < self.epsilon < math.inf:
            raise OutOfRangeError(f"epsilon of a budget must be a finite number > 0, got {self.epsilon}")
        require_delta(self.delta)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # as certificates write it
        object.__setattr__(self, "adjacency", parse_adjacency(self.adjacency))

    def require_affordable(self, what: str, *, spent: float, after: float) -> None:
        """Refuse what the budget does not cover.

        Args:
            what: who asks, for the message.
            spent: epsilon of what is booked, at the budget's delta. Public.
            after: epsilon of it together with what is asked. Public.

        Raises:
            BudgetExceededError: names what is spent, what it would be, and the budget.
        """
        if after <= self.epsilon * (1 + RELATIVE_TOLERANCE):
            return
        raise BudgetExceededError(
            f"{what} is refused: spent epsilon {spent:.6g}, with it {after:.6g} "
            f"at delta {self.delta:g}, but the budget is {self.epsilon:.6g}"
        )


def budget_mu(budget: Budget) -> float:
    """What all releases may count as Gaussian ones: the mu whose curve passes through the budget."""
    return mu_for(budget.epsilon, budget.delta)


def budget_epsilon(budget: Budget, delta: float, *, n_users: int = 1) -> float:
    """Epsilon that the filter guarantees at any delta, for one user or for several together.

    Args:
        budget: public.
        delta: in (0, 1). Public.
        n_users: >= 1. Public.
    """
    return max(n_users * budget.epsilon, epsilon_of(delta, mu=n_users * budget_mu(budget)))


def budget_point(budget: Budget, delta: float) -> CurvePoint:
    """One point of the curve that the filter guarantees; the looser conversions start from mu, which is GDP's."""
    rho = budget_mu(budget) ** 2 / 2
    return CurvePoint(
        delta=delta,
        epsilon=budget_epsilon(budget, delta),
        epsilon_rdp=max(budget.epsilon, epsilon_through_renyi(delta, rho=rho)),
        epsilon_zcdp=max(budget.epsilon, epsilon_through_zcdp(delta, rho=rho)),
    )


def budget_composition(budget: Budget, delta: float) -> Composition:
    """What everything that the filter lets through may cost together."""
    mu, point = budget_mu(budget), budget_point(budget, delta)
    return Composition(
        mu=mu,
        rho=mu * mu / 2,
        exact=False,
        epsilon=point.epsilon,
        epsilon_rdp=point.epsilon_rdp,
        epsilon_zcdp=point.epsilon_zcdp,
    )


def budget_implied(budget: Budget, delta: float) -> Implied:
    """What follows for one rating and for two users: under add-remove a rating changed is two steps as well."""
    pair = budget_epsilon(budget, delta, n_users=PAIR)
    steps = PAIR if budget.adjacency is Adjacency.ADD_REMOVE else 1
    return Implied(rating_epsilon=budget_epsilon(budget, delta, n_users=steps), pair_epsilon=pair)


PlannedRelease: TypeAlias = float | Mapping[str, Any]
"""A noise multiplier, or ``{"noise_multiplier": z, "participation": ...}`` where not everybody takes part."""
Plan: TypeAlias = Mapping[str, PlannedRelease]
"""Release name -> what is planned. Public, JSON-able."""


def planned_event(name: str, planned: PlannedRelease, adjacency: Adjacency) -> dict[str, Any]:
    """A sound event that costs what the planned release will cost at most."""
    multiplier, participation = _terms(planned)
    sensitivity = sensitivity_factor(adjacency, same_sign=False)
    deviation = multiplier * sensitivity
    event = {
        "mechanism": "gaussian",
        "name": name,
        "rows": 1,
        "width": 1,
        "layout": "vector",
        "grid_step": 1.0,
        "l2_bound": 1,
        "same_sign": False,
        "adjacency": str(adjacency),
        "noise_multiplier": multiplier,
        "covers": "planned",
        "l2_sensitivity": sensitivity,
        "noise_stddev": deviation,
        "release_shift": release_shift(deviation) if deviation > 0 else 0,
    }
    return event if participation is None else {**event, "participation": dict(participation)}


def planned_events(plan: Plan, adjacency: Adjacency) -> list[dict[str, Any]]:
    """``planned_event`` for a whole plan."""
    return [planned_event(name, planned, adjacency) for name, planned in plan.items()]


def require_planned(event: Event, plan: Plan | None) -> None:
    """Refuse an event that costs more than what is planned under its name.

    Sampling who takes part never costs more than asking everybody, so a plan for everybody covers it; a plan
    that counts on sampling covers that very sampling only.

    Raises:
        PrivacyError: the name is not planned, the noise is less than planned, the mechanism is not Gaussian,
            or the plan counts on another sampling.
    """
    if plan is None:
        return
    planned = plan.get(event["name"])
    if planned is not None:
        multiplier, participation = _terms(planned)
        enough = event["noise_multiplier"] >= multiplier * (1 - RELATIVE_TOLERANCE)
        covered = participation is None or event.get("participation") == dict(participation)
        if event["mechanism"] == "gaussian" and enough and covered:
            return
    raise PrivacyError(
        f"release {event['name']!r} with noise multiplier {event['noise_multiplier']} is not in "
        f"the run plan of this ledger (planned: {planned})"
    )


def counts_alike(event: Event, plan: Plan | None) -> bool:
    """Whether an event that ``require_planned`` accepts is accounted just as its plan is, or with more noise."""
    if plan is None:
        return False
    return is_amplified(event) == is_amplified(
        planned_event(event["name"], plan[event["name"]], event["adjacency"])
    )


def apart(events: Iterable[Event], run: str) -> list[Event]:
    """The events of one run, told apart from those of others for accounting.

    Releases of one round share their coins where participation is sampled; rounds of different runs that
    happen to have one name do not.
    """
    return [_apart(event, run) for event in events]


def _apart(event: Event, run: str) -> Event:
    participation = event.get("participation")
    if not isinstance(participation, Mapping):
        return event
    return {**event, "participation": {**participation, "round": f"{run}/{participation.get('round')}"}}


def _terms(planned: PlannedRelease) -> tuple[float, Mapping[str, Any] | None]:
    if isinstance(planned, Mapping):
        return planned["noise_multiplier"], planned.get("participation")
    return planned, None
