"""What was fixed before the first release, and so is what can be promised: the whole plan, or the budget.

A run may be stopped by somebody who has seen its boards. What is promised must therefore hold wherever one stops,
and the part that was spent by then does not: it is never claimed.

* With a plan, the plan's cost. A run that stops early has published a part of what the whole plan would have.
* Without one, the budget (``fedboard.common.privacy.accounting.budget``).
"""

import json
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import (
    Budget,
    Plan,
    budget_composition,
    budget_epsilon,
    budget_implied,
    budget_point,
    planned_event,
    planned_events,
    require_planned,
)
from fedboard.common.privacy.accounting.exact import epsilon_of_events, epsilon_when_adaptive
from fedboard.common.privacy.accounting.grouping import round_problems
from fedboard.common.privacy.accounting.guarantee import (
    CURVE_DELTAS,
    Composition,
    CurvePoint,
    Finding,
    Guarantee,
    Implied,
    composition_of,
    composition_sentences,
    curve_of,
    implied_by,
    is_exact,
)
from fedboard.common.privacy.adjacency import parse_adjacency
from fedboard.common.privacy.events import (
    LIBRARY_TOLERANCE,
    RELATIVE_TOLERANCE,
    Event,
    canonical_json,
    event_problems,
)

PLAN = "plan"
FILTER = "budget-filter"
_ENTRY = frozenset({"noise_multiplier", "participation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a promise is worth, by each way of accounting."""

    composition: Composition
    curve: tuple[CurvePoint, ...]
    implied: Implied


def numbers_of(events: Sequence[Event], delta: float) -> Numbers:
    """The numbers of sound releases that were fixed before the first."""
    return Numbers(
        composition=composition_of(events, delta), curve=curve_of(events), implied=implied_by(events, delta)
    )


@lru_cache(maxsize=64)
def _numbers_of_plan(plan: str, adjacency: str, delta: float) -> Numbers:
    """By the plan's text: every board of a run claims the same plan, and whoever verifies them computes it again.

    Args:
        plan: canonical JSON of [[release name, what is planned], ...]; text tells 1, 1.0 and true apart.
        adjacency: a value of ``Adjacency``.
        delta: where composition and ``implied`` are stated.
    """
    return numbers_of(planned_events(dict(json.loads(plan)), parse_adjacency(adjacency)), delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """The terms that a ledger was made with. Every field is public.

    As read from a certificate it may be anything: ``problems`` first.
    """

    rule: str
    """What is claimed: ``PLAN``, the cost of the whole plan, made or not; or ``FILTER``, the budget, which the
    ledger holds every release against before it is made: as Gaussian ones all of them together count at most what
    (epsilon, delta) allows, or all are pure and their epsilons add up to at most epsilon.
    """
    epsilon: float
    """Of the budget."""
    delta: float
    """Of the budget."""
    adjacency: str
    plan: dict[str, Any] | None = None
    """Release name -> noise multiplier, or a table with noise_multiplier and participation."""

    @classmethod
    def of(cls, budget: Budget, plan: Plan | None = None) -> "Commitment":
        """The commitment of a ledger with this budget and plan."""
        return cls(
            rule=FILTER if plan is None else PLAN,
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=str(budget.adjacency),
            plan=None if plan is None else dict(plan),
        )

    @property
    def budget(self) -> Budget:
        """The budget that was kept to."""
        return Budget(epsilon=self.epsilon, delta=self.delta, adjacency=parse_adjacency(self.adjacency))

    @property
    def tolerance(self) -> float:
        """How far its numbers may differ, relatively, from what another machine computes."""
        exact = self.plan is None or is_exact(self._planned())
        return RELATIVE_TOLERANCE if exact else LIBRARY_TOLERANCE

    def epsilon_at(self, delta: float) -> float:
        """Epsilon that is promised at a delta.

        Raises:
            FedboardError: dp-accounting is needed and not installed.
        """
        if self.plan is None:
            return budget_epsilon(self.budget, delta)
        return epsilon_of_events(self._planned(), delta)

    def claim(self) -> Guarantee:
        """What is promised, at the budget's delta."""
        return Guarantee(epsilon=self.epsilon_at(self.delta), delta=self.delta, adjacency=self.adjacency)

    def numbers(self, delta: float) -> Numbers:
        """What the promise is worth by each way of accounting.

        Args:
            delta: where composition and ``implied`` are stated.

        Raises:
            FedboardError: dp-accounting is needed and not installed.
        """
        if self.plan is not None:
            known = _numbers_of_plan(canonical_json(list(self.plan.items())), self.adjacency, delta)
            return deepcopy(known)  # whoever tampers with a certificate's numbers does not with these
        budget = self.budget
        return Numbers(
            composition=budget_composition(budget, delta),
            curve=tuple(budget_point(budget, at) for at in CURVE_DELTAS),
            implied=budget_implied(budget, delta),
        )

    def problems(self) -> list[str]:
        """What is wrong with the terms themselves; nothing else may be asked where there is something."""
        if self.rule not in (PLAN, FILTER):
            return [f"the rule must be {PLAN!r} or {FILTER!r}, is {self.rule!r}"]
        if (self.rule == PLAN) != (self.plan is not None):
            return [f"the rule {self.rule!r} {'needs' if self.rule == PLAN else 'has no'} plan"]
        try:
            budget = self.budget
            events = sound_plan(self.plan or {}, budget)
            cost = epsilon_of_events(events, self.delta) if events else 0.0
            budget.require_affordable("the whole plan", spent=0.0, after=cost / (1 + self.tolerance))
        except PrivacyError as error:
            return [str(error)]
        return []

    def findings(self, releases: Sequence[Event]) -> list[Finding]:
        """Hold the terms, and releases against them.

        Args:
            releases: sound, of the adjacency of the terms. Public.
        """
        problems = self.problems()
        detail = "; ".join(problems) or f"rule {self.rule!r}, epsilon {self.epsilon!r}, delta {self.delta!r}"
        stated = Finding(check="commitment", passed=not problems, detail=detail)
        if problems:
            return [stated]
        if self.plan is not None:
            return [stated, plan_finding(releases, self.plan)]
        counted = epsilon_when_adaptive(releases, self.delta)
        detail = f"the releases count epsilon {counted!r} of the budget's {self.epsilon!r}"
        within = counted <= self.epsilon * (1 + RELATIVE_TOLERANCE)
        return [stated, Finding(check="budget", passed=within, detail=detail)]

    def sentences(self, composition: Composition, n_releases: int) -> tuple[str, ...]:
        """What is claimed and why, in words.

        Args:
            composition: of ``numbers``.
            n_releases: how many are made so far.
        """
        if self.plan is None:
            return self._filter_sentences(composition, n_releases)
        together = f"The {len(self.plan)} releases of its plan together"
        cost, converted = composition_sentences(composition, together)
        why = (
            f"The plan was fixed before the first release; {n_releases} of {len(self.plan)} are made so far. The "
            "whole plan is claimed, made or not, because a run may be stopped by what its boards show."
        )
        return cost, why, converted

    def _filter_sentences(self, composition: Composition, n_releases: int) -> tuple[str, str]:
        return (
            f"No plan fixed its releases beforehand, so the budget is claimed, epsilon {self.epsilon!r} at delta "
            f"{self.delta!r}, and not what its {n_releases} releases had cost when it was made: before each of "
            f"them the ledger made sure that all together count at most {composition.mu!r}-GDP, or are all pure "
            "with epsilons that add up to no more than that. It holds whatever each was chosen by and whenever one "
            "stops; what was spent by then does not, because one could stop where the outcomes suit.",
            f"Converted from Renyi orders the budget would be stated as epsilon {composition.epsilon_rdp!r}, "
            f"converted from zCDP as {composition.epsilon_zcdp!r}.",
        )

    def _planned(self) -> list[dict[str, Any]]:
        return planned_events(self.plan or {}, parse_adjacency(self.adjacency))


def plan_finding(releases: Sequence[Event], plan: Plan) -> Finding:
    """Whether each release was planned, with no less noise than planned, and made once."""
    names = [event.get("name") for event in releases]
    try:
        for event in releases:
            require_planned(event, plan)
    except (PrivacyError, LookupError, TypeError) as error:
        return Finding(check="plan", passed=False, detail=str(error))
    detail = f"{len(names)} of {len(plan)} planned releases are made, each once and with no less noise than planned"
    if len(set(names)) < len(names):
        detail = "a planned release was made more than once"
    return Finding(check="plan", passed=len(set(names)) == len(names), detail=detail)


def sound_plan(plan: Mapping[str, Any], budget: Budget) -> list[dict[str, Any]]:
    """The planned events of a plan that may hold anything.

    Raises:
        PrivacyError: an entry is no sound plan of a release.
    """
    events = []
    for name, entry in plan.items():
        terms = entry if isinstance(entry, Mapping) else {"noise_multiplier": entry}
        multiplier = terms.get("noise_multiplier")
        number = isinstance(multiplier, int | float) and not isinstance(multiplier, bool)
        if not number or not 0 < (multiplier or 0) < math.inf or not set(terms) <= _ENTRY:
            raise PrivacyError(f"the plan of release {name!r} must be a noise multiplier > 0, is {entry!r}")
        try:
            events.append(planned_event(name, entry, budget.adjacency))
        except (ArithmeticError, TypeError, ValueError):
            raise PrivacyError(f"the plan of release {name!r} cannot be read: {entry!r}") from None
    problems = [problem for event in events for problem in event_problems(event)] + round_problems(events)
    if problems:
        raise PrivacyError(f"the plan is not sound: {'; '.join(problems)}")
    return events
