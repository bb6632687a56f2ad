"""The runs in a population's account, as its rows tell them: what each has booked and what is kept for it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import Budget, Plan, apart, planned_event
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event, event_mu, require_sound
from fedboard.common.privacy.ledger.chain_rows import Row, require_budget, require_plan

OPENED = "#opened"
CLOSED = "#closed"
_RECORD = "record"
_REST = "#rest"
"""What is reserved and not booked of a run without a plan, as one release."""
_NOTHING = 1e-12
"""A smaller part of mu^2 is what rounding leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One run. Every field is public."""

    run: str
    """The id of the run's own ledger."""
    name: str
    lineage: str
    """The run that founded the chain of boards that this one continues; itself where it started from nothing."""
    plan: Plan | None
    """What is reserved; None: ``reserve``, or every release is checked when it is booked."""
    booked: Mapping[str, Event]
    """Release name -> event."""
    closed: bool = False
    """Whether what it did not use was given back; it books nothing more."""
    reserve: Mapping[str, float] | None = None
    """Of a run whose later releases follow from earlier ones: the epsilon and delta that is kept for all of it."""

    def spent(self) -> list[Event]:
        """What it has booked, for accounting."""
        return apart(self.booked.values(), self.run)

    def committed(self, adjacency: Adjacency) -> list[Event]:
        """What it has booked and what is still reserved for it, for accounting."""
        if self.closed:
            return self.spent()
        if self.plan is None:
            return [*self.spent(), *apart(self._rest(adjacency), self.run)]
        reserved = [
            planned_event(name, planned, adjacency)
            for name, planned in self.plan.items()
            if name not in self.booked
        ]
        return [*self.spent(), *apart(reserved, self.run)]

    def _rest(self, adjacency: Adjacency) -> list[Event]:
        """What is left of a reserve, as one release."""
        if self.reserve is None:
            return []
        whole = mu_for(self.reserve["epsilon"], self.reserve["delta"]) ** 2
        left = whole - math.fsum(event_mu(event) ** 2 for event in self.booked.values())
        if left <= _NOTHING * whole:
            return []
        return [planned_event(_REST, 1.0 / math.sqrt(left), adjacency)]


def opening(*, name: str, lineage: str, plan: Plan | None, reserve: Budget | None = None) -> dict[str, Any]:
    """The record of a run that joins."""
    kept = None if reserve is None else {"epsilon": reserve.epsilon, "delta": reserve.delta}
    return {
        **({} if kept is None else {"reserve": kept}),
        _RECORD: "opened",
        "name": OPENED,
        "run": name,
        "lineage": lineage,
        "plan": None if plan is None else dict(plan),
    }


def closing() -> dict[str, Any]:
    """The record of a run that gives back what it did not use."""
    return {_RECORD: "closed", "name": CLOSED}


def require_record(header: Mapping[str, Any], row: Row) -> None:
    """Refuse a row that cannot be one of a population's account.

    Raises:
        PrivacyError: an event that is not sound or has another adjacency, or an unknown record.
    """
    record = row.record
    if _RECORD not in record:
        require_sound(record)
        if record["adjacency"] != header["budget"]["adjacency"]:
            raise PrivacyError(f"row {row.seq} has another adjacency than the account: {record['adjacency']}")
    elif record["name"] not in (OPENED, CLOSED):
        raise PrivacyError(f"row {row.seq} is no record of an account: {record['name']!r}")
    elif record["name"] == OPENED:
        _require_opening(record, Budget(**header["budget"]), row.seq)


def _require_opening(record: Mapping[str, Any], budget: Budget, row: int) -> None:
    named = all(isinstance(record.get(key), str) for key in ("run", "lineage"))
    if not named or "plan" not in record:
        raise PrivacyError(f"row {row} opens a run and does not say which, or with which plan")
    require_plan(record["plan"], budget)
    if (kept := record.get("reserve")) is not None:
        if not isinstance(kept, Mapping) or set(kept) != {"epsilon", "delta"}:
            raise PrivacyError(f"row {row} reserves what is no budget: {kept!r}")
        require_budget({**kept, "adjacency": budget.adjacency})


def members_of(rows: Iterable[Row]) -> dict[str, Member]:
    """Run id -> member, in the order in which they joined.

    Raises:
        PrivacyError: a run booked before it joined or after it was closed.
    """
    records: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        records.setdefault(row.run, []).append(row.record)
    return {run: _member(run, of_run) for run, of_run in records.items()}


def _member(run: str, records: Sequence[dict[str, Any]]) -> Member:
    first, *others = records
    closed = bool(others) and others[-1].get(_RECORD) == "closed"
    events = others[:-1] if closed else others
    if first["name"] != OPENED or any(_RECORD in event for event in events):
        raise PrivacyError(f"the account's rows of run {run} are out of order")
    return Member(
        run=run,
        name=first["run"],
        lineage=first["lineage"],
        plan=first["plan"],
        booked={event["name"]: event for event in events},
        closed=closed,
        reserve=first.get("reserve"),
    )
