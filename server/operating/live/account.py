"""What a ledger says of a run's budget: spent, what the next round will, what is left; each release's cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedboard.common.privacy.accounting.budget import planned_event
from fedboard.common.privacy.accounting.calibration import round_of_release
from fedboard.common.privacy.accounting.exact import epsilon_of_events, epsilon_when_adaptive
from fedboard.common.privacy.accounting.grouping import mechanisms_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event
from fedboard.common.privacy.ledger.ledger import Ledger

Rounds = Sequence[Sequence[str]]
"""Names of the releases of each round, in the order of the rounds. Public."""
_STATED = ("mechanism", "noise_multiplier")


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


@dataclass(slots=True)
class Account:
    """Turns ledgers of one run, one after the other, into what is shown; remembers what no later one changes."""

    _costs: dict[tuple[str, bool], tuple[float, bool]] = field(default_factory=dict)
    _sums: tuple[object, tuple[float, float | None, bool]] | None = None

    def budget(self, booked: Booked, rounds: Rounds, logged: float) -> dict[str, Any]:
        """Limit, spent, the next round's part, left; natural-log units, at the budget's delta.

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
        spent, after, exact = self._sums[1]
        left = max(booked.epsilon - spent, 0.0)
        return {
            "epsilon": booked.epsilon,
            "delta": booked.delta,
            "adjacency": str(booked.adjacency),
            "spent": spent,
            "next": None if after is None or not coming else max(min(after, booked.epsilon) - spent, 0.0),
            "left": left,
            "computed": exact,
        }

    def releases(self, booked: Booked, rounds: Rounds) -> list[dict[str, Any]]:
        """What was and will be released, in the order of the rounds, with what each costs by itself."""
        events = {str(event["name"]): event for event in booked.events}
        order = [name for names in rounds for name in names] or [*events, *(set(booked.plan) - set(events))]
        found = []
        for name in order:
            planned = name not in events
            if planned and name not in booked.plan:
                continue
            event = events.get(name) or planned_event(name, booked.plan[name], booked.adjacency)
            epsilon, exact = self._alone(event, booked.delta, planned=planned)
            found.append(
                {
                    "name": name,
                    "round": round_of_release(name).replace("-", " "),
                    **{key: event.get(key) for key in _STATED},
                    "covers": "" if planned else str(event.get("covers", "")),
                    "epsilon": epsilon,
                    "exact": exact,
                    "booked": not planned,
                }
            )
        return found

    def _added_up(
        self, booked: Booked, coming: Sequence[str], logged: float
    ) -> tuple[float, float | None, bool]:
        """Epsilon now and after the next round, where that can be told, and whether it is computed here."""
        spent, exact = self._together(booked, booked.events, logged)
        if not exact:
            return spent, None, False
        after = [*booked.events, *self._planned(booked, coming)]
        return spent, self._together(booked, after, spent)[0], True

    def _together(self, booked: Booked, events: Sequence[Event], logged: float) -> tuple[float, bool]:
        if not events:
            return 0.0, True
        if not mechanisms_of(events).is_gaussian:
            return logged, False
        return epsilon_of_events(events, booked.delta), True

    def _planned(self, booked: Booked, names: Sequence[str]) -> list[dict[str, Any]]:
        return [
            planned_event(name, booked.plan[name], booked.adjacency) for name in names if name in booked.plan
        ]

    def _alone(self, event: Event, delta: float, *, planned: bool) -> tuple[float, bool]:
        """Epsilon of one release, and whether that is exact; where it is not, it is at most that."""
        key = (str(event["name"]), planned)
        if key not in self._costs:
            exact = mechanisms_of([event]).is_gaussian
            self._costs[key] = (epsilon_when_adaptive([event], delta), exact)
        return self._costs[key]


def next_round(booked: Booked, rounds: Rounds) -> Sequence[str]:
    """Names of the releases of the first round of which none is booked; empty where all are."""
    names = booked.names
    return next((of_round for of_round in rounds if not names & set(of_round)), ())
