"""What a ledger says of a run's budget: spent, what the next round will, what is left; each release's cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedboard.common.privacy.accounting.budget import planned_event
from fedboard.common.privacy.accounting.exact import epsilon_of_events, epsilon_when_adaptive
from fedboard.common.privacy.accounting.grouping import mechanisms_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event
from fedboard.common.privacy.ledger.ledger import Ledger

Rounds = Sequence[Sequence[str]]
"""Names of the releases of each round, in the order of the rounds. Public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """A ledger as it was read. Public, all of it."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    plan: Mapping[str, Any]
    events: tuple[dict[str, Any], ...]

    @staticmethod
    def of(ledger: Ledger) -> "Booked":
        """From a ledger that is open."""
        budget = ledger.budget
        return Booked(
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            plan=dict(ledger.plan or {}),
            events=tuple(ledger.events()),
        )

    @property
    def names(self) -> set[str]:
        """Of what is booked."""
        return {str(event["name"]) for event in self.events}

    def in_order(self, rounds: Rounds) -> list[dict[str, Any]]:
        """What was and will be released, in the order of the rounds; the plan's own events for what is to come."""
        events = {str(event["name"]): event for event in self.events}
        order = [name for names in rounds for name in names] or [*events, *(set(self.plan) - set(events))]
        return [events.get(n) or self.planned(n) for n in order if n in events or n in self.plan]

    def planned(self, name: str) -> dict[str, Any]:
        """As it will be booked."""
        return planned_event(name, self.plan[name], self.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Of one budget; natural-log units, at its delta."""

    name: str
    epsilon: float
    delta: float
    spent: float
    next: float | None = None
    """What the round under way will spend, where that can be told."""
    reserved: float = 0.0
    """For other runs that are under way."""

    @property
    def left(self) -> float:
        """What is not spent."""
        return max(self.epsilon - self.spent, 0.0)


@dataclass(slots=True)
class Account:
    """Turns ledgers of one run, one after the other, into what is shown; remembers what no later one changes."""

    _costs: dict[tuple[str, bool], tuple[float, bool]] = field(default_factory=dict)
    _sums: tuple[object, tuple[float, float | None]] | None = None

    def spending(self, booked: Booked, rounds: Rounds, logged: float) -> Spending:
        """Limit, spent, the next round's part.

        Args:
            booked: the ledger.
            rounds: of the whole run; empty where they are not known.
            logged: epsilon after the last round, as the run's log has it. Taken where loss distributions would have
                to be composed: the run did it, and to do it again costs more than a page may.
        """
        coming = next_round(booked, rounds)
        asked = (booked.delta, frozenset(booked.names), tuple(coming), logged)
        if self._sums is None or self._sums[0] != asked:
            self._sums = (asked, self._added_up(booked, coming, logged))
        spent, after = self._sums[1]
        return Spending(
            name="this run",
            epsilon=booked.epsilon,
            delta=booked.delta,
            spent=spent,
            next=None if after is None or not coming else max(min(after, booked.epsilon) - spent, 0.0),
        )

    def alone(self, event: Event, delta: float, *, planned: bool) -> tuple[float, bool]:
        """Epsilon of one release by itself, and whether that is exact; where it is not, it is at most that.

        Raises:
            PrivacyError: the event is not sound.
        """
        key = (str(event["name"]), planned)
        if key not in self._costs:
            exact = mechanisms_of([event]).is_gaussian
            self._costs[key] = (epsilon_when_adaptive([event], delta), exact)
        return self._costs[key]

    def _added_up(self, booked: Booked, coming: Sequence[str], logged: float) -> tuple[float, float | None]:
        """Epsilon now, and after the next round where that can be told."""
        if booked.events and not mechanisms_of(booked.events).is_gaussian:
            return logged, None
        after = [*booked.events, *(booked.planned(name) for name in coming if name in booked.plan)]
        if after and not mechanisms_of(after).is_gaussian:
            return self._together(booked.events, booked.delta), None
        return self._together(booked.events, booked.delta), self._together(after, booked.delta)

    def _together(self, events: Sequence[Event], delta: float) -> float:
        return epsilon_of_events(events, delta) if events else 0.0


def next_round(booked: Booked, rounds: Rounds) -> Sequence[str]:
    """Names of the releases of the first round of which none is booked; empty where all are."""
    names = booked.names
    return next((of_round for of_round in rounds if not names & set(of_round)), ())
