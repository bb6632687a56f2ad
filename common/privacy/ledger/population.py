"""The account of a data population: what all runs on the same users cost together, and the limit to it."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedboard.common.errors import InputError, OutOfRangeError, PrivacyError
from fedboard.common.privacy.accounting.budget import Budget, Plan, counts_alike, require_planned
from fedboard.common.privacy.accounting.exact import epsilon_when_adaptive
from fedboard.common.privacy.events import Event, canonical_json, require_sound
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.chain_rows import POPULATION, Row, lock_writer
from fedboard.common.privacy.ledger.members import (
    CLOSED,
    OPENED,
    Member,
    PopulationTotal,
    closing,
    members_of,
    opening,
    require_record,
)

_PATIENCE = 60.0
"""Seconds to wait for other runs; each holds the file for the time of one booking."""


class Population:
    """One file that all runs on the same users book in; several processes may have it open.

    A run joins with its plan, which is reserved as a whole: what was started can be finished. Lineages (chains
    of boards that continue each other) may have a limit of their own.

    Guarantee: booked and reserved releases of all runs together cost at most the budget, and those of each
    lineage at most the lineage's, whatever runs at the same time on this machine: every change is decided
    and written in one exclusive transaction.
    Not guaranteed: that all runs on these users name this account, or that two accounts do not share users;
    locks across machines (network file systems).
    """

    def __init__(self, chain: ChainFile) -> None:
        """Use ``Population.create`` or ``Population.open``."""
        self._chain = chain
        self.budget = Budget(**chain.header["budget"])
        self.lineage_epsilon: float | None = chain.header["lineage_epsilon"]

    @classmethod
    def create(
        cls, path: str | Path, budget: Budget, *, lineage_epsilon: float | None = None
    ) -> "Population":
        """Start a new account.

        Args:
            path: a file that does not exist yet.
            budget: of all runs together. Public.
            lineage_epsilon: of each lineage, at the budget's delta; None: no limit of its own. Public.

        Raises:
            InputError: the file exists already or its folder does not.
            PrivacyError: the lineage's limit is not a number in (0, epsilon].
            StorageError: it cannot be written.
        """
        if lineage_epsilon is not None and not 0 < lineage_epsilon <= budget.epsilon:
            raise OutOfRangeError(
                f"the budget of a lineage must be in (0, {budget.epsilon:g}], the whole budget, "
                f"got {lineage_epsilon}"
            )
        header = {"budget": asdict(budget), "lineage_epsilon": lineage_epsilon}
        with contextlib.closing(lock_writer(path)):
            return cls(ChainFile.create(path, header, check=require_record, kind=POPULATION))

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> "Population":
        """Open an account; its chain is verified first.

        Raises:
            InputError: no such file, or not a population's account.
            PrivacyError: it was tampered with.
            StorageError: it cannot be read.
        """
        chain = ChainFile.open(
            path, check=require_record, kind=POPULATION, read_only=read_only, patience=_PATIENCE
        )
        return cls(chain)

    @property
    def id(self) -> str:
        """Random name of the account."""
        return self._chain.id

    @property
    def head(self) -> str:
        """Hash of the last row, to be published."""
        return self._chain.head

    def members(self) -> tuple[Member, ...]:
        """All runs that ever joined, oldest first."""
        return tuple(members_of(self._chain.rows()).values())

    def rows(self) -> tuple[Row, ...]:
        """All rows, oldest first."""
        return self._chain.rows()

    def verify(self, *, published_head: str | None = None) -> None:
        """Recompute the hash chain and check every record, as ``Ledger.verify``.

        Raises:
            PrivacyError: it was tampered with, or a published head is not in its chain.
        """
        self._chain.verify(published_head=published_head)
        self.members()

    def join(
        self,
        run: str,
        *,
        name: str,
        plan: Plan | None,
        lineage: str | None = None,
        reserve: Budget | None = None,
    ) -> None:
        """Give a run its place; nothing happens where it has joined before.

        Args:
            run: id of the run's ledger.
            name: for people.
            plan: reserved now, as a whole; None: ``reserve``, or every release is checked when it is booked.
            lineage: the lineage that the run continues; None: it founds one.
            reserve: of a run without a plan, the budget of its own ledger, kept for it now.

        Raises:
            BudgetExceededError: the plan does not fit; nothing was written.
            InputError: no such lineage here.
            PrivacyError: the run joined before with another plan or lineage.
            StorageError: it cannot be written.
        """
        record = opening(name=name, lineage=lineage or run, plan=plan, reserve=reserve)
        with self._chain.writing() as add:
            members = members_of(self._chain.rows())
            if run in members:
                _require_same(members[run], record)
            else:
                if lineage is not None and lineage not in {member.lineage for member in members.values()}:
                    raise InputError(f"{self._chain.path}: this population has no lineage {lineage}")
                add(run, record["name"], record)
                what = "the whole plan" if reserve is None else "what is reserved for the whole"
                self._require_room(members, members_of(self._chain.rows()), what=what, run=run)

    def book(self, run: str, events: Sequence[Event]) -> None:
        """Write releases of a run, all of them or none; durable on return.

        Raises:
            BudgetExceededError: there was no plan, and the population has not that much left.
            PrivacyError: an event is not sound, not in the run's plan or booked before, or the run was closed
                or never joined.
            StorageError: it cannot be written.
        """
        with self._chain.writing() as add:
            members = members_of(self._chain.rows())
            member = self._member(members, run)
            for event in events:
                self._require_bookable(event, member)
            for event in events:
                add(run, event["name"], event)
            if not all(counts_alike(event, member.plan) for event in events):
                names = ", ".join(repr(event["name"]) for event in events)
                after = members_of(self._chain.rows())
                self._require_room(members, after, what=f"release {names}", run=run)

    def give_back(self, run: str) -> None:
        """Close a run: what is reserved and not booked is free for others; the run books nothing more.

        Raises:
            InputError: no such run here.
            StorageError: it cannot be written.
        """
        with self._chain.writing() as add:
            if not self._member(members_of(self._chain.rows()), run).closed:
                record = closing()
                add(run, record["name"], record)

    def total(self, run: str, *, head: str | None = None) -> PopulationTotal:
        """What everything costs, as the certificate of one of the run's boards states it.

        Args:
            run: id of the run's ledger.
            head: look back at what was there when this was the head; default: now.

        Raises:
            InputError: no such run here.
            PrivacyError: no such head.
        """
        rows = list(self._chain.rows())
        if head is not None:
            while rows and rows[-1].hash != head:
                rows.pop()
            if not rows:
                raise PrivacyError("the ledger was tampered with: a published head is not in its chain")
        members = members_of(rows)
        mine = self._member(members, run)
        everybody = list(members.values())
        booked = [event for member in everybody for event in member.booked.values()]
        return PopulationTotal(
            population=self.id,
            head=rows[-1].hash,
            delta=self.budget.delta,
            adjacency=str(self.budget.adjacency),
            budget=self.budget.epsilon,
            spent=self._cost(everybody, Member.spent),
            committed=self._cost(everybody, self._committed),
            runs=len(everybody),
            releases=len(booked),
            private=all(event.get("private") is True for event in booked),
            lineage=mine.lineage,
            lineage_spent=self._cost(_of_lineage(everybody, mine.lineage), Member.spent),
            lineage_budget=self.lineage_epsilon,
        )

    def cost(self, *, reserved: bool, lineage: str | None = None) -> float:
        """Epsilon of what is booked at the budget's delta.

        Args:
            reserved: count what is reserved as well.
            lineage: of this lineage only; default: of all.
        """
        members = self.members()
        chosen = members if lineage is None else _of_lineage(members, lineage)
        return self._cost(chosen, self._committed if reserved else Member.spent)

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        self._chain.close()

    def __enter__(self) -> "Population":
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _committed(self, member: Member) -> list[Event]:
        return member.committed(self.budget.adjacency)

    def _cost(self, members: Iterable[Member], events: Callable[[Member], list[Event]]) -> float:
        # Later runs are chosen by people who have seen the boards of earlier ones.
        return epsilon_when_adaptive([event for m in members for event in events(m)], self.budget.delta)

    def _member(self, members: dict[str, Member], run: str) -> Member:
        if run not in members:
            raise InputError(f"{self._chain.path}: no run {run} has joined this population")
        return members[run]

    def _require_bookable(self, event: Event, member: Member) -> None:
        require_sound(event)
        name = event["name"]
        if name in (OPENED, CLOSED):
            raise PrivacyError(f"release {name!r} has the name of a record of its population's account")
        if event["adjacency"] != self.budget.adjacency:
            raise PrivacyError(
                f"release {name!r} is for adjacency {event['adjacency']}, its population's account for "
                f"{self.budget.adjacency}; they must be the same"
            )
        if member.closed:
            raise PrivacyError(
                f"release {name!r} is refused: what was reserved for run {member.run} was given back to the "
                "population; start a new run"
            )
        if name in member.booked:
            raise PrivacyError(
                f"release {name!r} is booked in the population's account already; open the run again to go on"
            )
        require_planned(event, member.plan)

    def _require_room(
        self, before: dict[str, Member], after: dict[str, Member], *, what: str, run: str
    ) -> None:
        """Refuse, before it is committed, what the population or the run's lineage cannot afford."""
        self.budget.require_affordable(
            f"{what} (with all runs on this population)",
            spent=self._cost(before.values(), self._committed),
            after=self._cost(after.values(), self._committed),
        )
        if self.lineage_epsilon is not None:
            lineage = after[run].lineage
            Budget(**{**asdict(self.budget), "epsilon": self.lineage_epsilon}).require_affordable(
                f"{what} (with all runs of its lineage)",
                spent=self._cost(_of_lineage(before.values(), lineage), self._committed),
                after=self._cost(_of_lineage(after.values(), lineage), self._committed),
            )


def _of_lineage(members: Iterable[Member], lineage: str) -> list[Member]:
    return [member for member in members if member.lineage == lineage]


def _require_same(member: Member, record: dict[str, Any]) -> None:
    stated = {"lineage": member.lineage, "plan": member.plan, "reserve": member.reserve}
    if canonical_json(stated) != canonical_json({key: record.get(key) for key in stated}):
        raise PrivacyError(f"run {member.run} joined this population with another plan or lineage")


def missing_from(population: Population, run: str, events: Iterable[Event]) -> list[dict[str, Any]]:
    """What the account holds of a run and these events lack; a crash between two bookings leaves that.

    Args:
        population: the account.
        run: id of the run's ledger.
        events: what that ledger holds.

    Raises:
        PrivacyError: the account lacks one of these events, or holds another one under its name.
    """
    held = next((m.booked for m in population.members() if m.run == run), {})
    own = {str(event["name"]): canonical_json(event) for event in events}
    for name, text in own.items():
        if name not in held or canonical_json(held[name]) != text:
            raise PrivacyError(
                f"the population's account does not hold release {name!r} of this run as it was booked; the "
                "account was lost or replaced, so nothing more can be released. Restore it"
            )
    return [dict(event) for name, event in held.items() if name not in own]


def take_place(chain: ChainFile, population: Population | None) -> None:
    """Let a run join the account that the header of its ledger names, if it has not; nothing where it names none.

    Raises:
        BudgetExceededError: the run's plan does not fit.
        InputError: the population has not the lineage that the run continues.
        PrivacyError: the population is missing or another one, or lacks something that the run booked.
        StorageError: the account cannot be written.
    """
    bound = chain.header.get("population")
    if bound is None and population is None:
        return
    if bound is None or population is None or bound["id"] != population.id:
        raise PrivacyError(
            f"{chain.path}: this ledger books in "
            f"{'no population' if bound is None else 'the population ' + str(bound['id'])}, "
            f"{'none' if population is None else population.id} was given; they must be the same"
        )
    missing_from(
        population, chain.id, (row.record for row in chain.rows())
    )  # refuse before the run joins anew
    plan, name = chain.header["plan"], chain.header["run"]
    reserve = Budget(**chain.header["budget"]) if bound.get("reserved") else None
    population.join(chain.id, name=name, plan=plan, lineage=bound["lineage"], reserve=reserve)
