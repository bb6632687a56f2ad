"""What a population's account says: its runs, what each has booked and what is kept for it, and the totals."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import Budget, Plan, apart, planned_event
from fedboard.common.privacy.accounting.exact import epsilon_when_adaptive, mu_for
from fedboard.common.privacy.accounting.guarantee import Finding
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, Event, event_mu, require_sound
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


_SHOWN = 8  # characters of an id, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationTotal:
    """State of a population's account when a board was published. Every field is public.

    Epsilons are natural-log units at ``delta``, and include this run's. What is promised is ``budget``, and
    ``lineage_budget`` to each lineage: the account checks them before every release and every plan, so that they
    hold whatever a run was started or stopped by. What is spent and reserved says how much of that is used up, as
    the account counts it (``epsilon_when_adaptive``).
    """

    population: str
    """Id of the account."""
    head: str
    """Hash of the account's last row then; with it the account's owner is bound to these numbers."""
    delta: float
    adjacency: str
    budget: float
    """Epsilon that all runs together may cost: what is promised."""
    spent: float
    """Epsilon of everything booked."""
    committed: float
    """Epsilon with what is reserved for runs under way."""
    runs: int
    """Number of runs that ever joined."""
    releases: int
    """Number of releases booked."""
    private: bool
    """False where some noise can be reproduced from a seed: then the total is a simulation's."""
    lineage: str
    """Id of the run that founded the chain of boards that this board belongs to."""
    lineage_spent: float
    """Epsilon of everything booked in the lineage."""
    lineage_budget: float | None
    """Epsilon that a lineage may cost; None: no limit of its own."""

    def agrees_with(self, other: "PopulationTotal") -> bool:
        """Whether these are the same totals, but for how another machine rounds."""
        ours, theirs = asdict(self), asdict(other)
        return all(_same(value, theirs[name]) for name, value in ours.items())

    def sentence(self) -> str:
        """What is promised about everything together, and how much of it is used up, in words."""
        reserved = "" if self.committed <= self.spent else f" ({self.committed:.6g} with what is reserved)"
        within = (
            "The lineage of this board has no limit of its own"
            if self.lineage_budget is None
            else f"The lineage of this board is promised epsilon {self.lineage_budget:.6g} in the same way"
        )
        simulated = "" if self.private or not self.releases else " Some of its noise is a simulation's."
        return (
            f"All runs on this population together (account {self.population[:_SHOWN]}) are promised epsilon "
            f"{self.budget:.6g} at delta {self.delta:g}: the account refuses more, whatever a run was started or "
            f"stopped by. The {self.runs} runs so far count {self.spent:.6g} of it{reserved}. {within} and counts "
            f"{self.lineage_spent:.6g}.{simulated}"
        )

    def findings(self, releases: Sequence[Event], *, adjacency: str) -> list[Finding]:
        """Check what can be checked without the account: that the numbers are possible.

        Args:
            releases: sound events of the board. Public.
            adjacency: the one of the board's claim.
        """
        same = self.adjacency == adjacency
        detail = f"the account is for adjacency {self.adjacency}, the claim for {adjacency}"
        if not same or not 0 < self.delta < 1:
            return [Finding(check="population", passed=False, detail=detail)]
        own = epsilon_when_adaptive(releases, self.delta)
        limits = [own, self.lineage_spent, self.spent, self.committed, self.budget]
        limit = self.budget if self.lineage_budget is None else self.lineage_budget
        ordered = all(low <= high * (1 + RELATIVE_TOLERANCE) for low, high in pairwise(limits))
        detail = (
            f"this board's releases cost epsilon {own:.6g}, its lineage {self.lineage_spent:.6g}, all runs "
            f"{self.spent:.6g}, with reserved ones {self.committed:.6g}, the budget is {self.budget:.6g}"
        )
        within = self.lineage_spent <= limit * (1 + RELATIVE_TOLERANCE)
        return [Finding(check="population", passed=ordered and within, detail=detail)]


def _same(value: object, other: object) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=RELATIVE_TOLERANCE)
    return value == other
