"""The ledger: the append-only record of every release, durable before the release leaves the server."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.budget import Budget, Plan, apart, planned_events, require_planned
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.events import Event, canonical_json, digest, require_sound
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.chain_rows import Row, lock_writer
from fedboard.common.privacy.ledger.members import PopulationTotal
from fedboard.common.privacy.ledger.population import Population, missing_from, take_place


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that an event is in the ledger; it opens one release."""

    seq: int
    name: str
    event_digest: str
    """SHA-256 of the event's canonical JSON."""
    hash: str
    """Hash of the ledger's row."""
    _used: bool = field(default=False, init=False, repr=False, compare=False)

    def use(self) -> None:
        """Use it up, so that what it paid for is drawn once.

        Raises:
            PrivacyError: it was used before.
        """
        if self._used:
            raise PrivacyError(f"the receipt of release {self.name!r} was used before; it is paid for once")
        object.__setattr__(self, "_used", True)


class Ledger:
    """Record of releases with a budget, in one SQLite file, each row chained to the one before by SHA-256.

    Guarantee: when ``book`` returns, the event is on disk (write-ahead log, fsync) and all events together
    cost at most the budget; when it raises, nothing was written here. One writer at a time; a second one is
    refused. With a population, every event is booked in the population's ledger first: after a crash between
    the two the population holds more than the run, never less, and the run catches up when it is opened.
    Not guaranteed: protection from an owner who rewrites the whole file; publish ``head`` to be bound to it.
    """

    def __init__(
        self, chain: ChainFile, *, run: str, lock: IO[bytes] | None, population: Population | None
    ) -> None:
        """Use ``Ledger.create`` or ``Ledger.open``."""
        self._chain = chain
        self._lock_file = lock
        self._population = population
        self._spent: tuple[str, float] | None = None
        self.budget = Budget(**chain.header["budget"])
        """What all of it may cost; fixed when the ledger was created."""
        self.plan: Plan | None = chain.header["plan"]
        """Release name -> noise multiplier of every release of the run; None where none was fixed."""
        self.run = run or chain.header["run"]
        """Name of the run that books."""

    @classmethod
    def create(
        cls,
        path: str | Path,
        budget: Budget,
        *,
        run: str = "run",
        plan: Plan | None = None,
        population: Population | None = None,
        lineage: str | None = None,
        reserve: bool = False,
    ) -> "Ledger":
        """Start a new ledger.

        Args:
            path: a file that does not exist yet.
            budget: public.
            run: name of the run that books; part of every row.
            plan: release name -> noise multiplier of every release of the run. With a plan, the whole run is
                checked against the budget now, and later only planned releases with at least the planned
                noise are accepted.
            population: the account of the users whose data this is. The plan is reserved there now.
            lineage: the lineage in the population that this run continues; default: it founds one.
            reserve: without a plan, keep the whole budget in the population for this run, from now on.

        Raises:
            InputError: the file exists already or its folder does not.
            BudgetExceededError: the plan costs more than the budget, or than the population has left.
            StorageError: it cannot be written.
        """
        if plan is not None:
            planned = epsilon_of_events(planned_events(plan, budget.adjacency), budget.delta)
            budget.require_affordable("the whole plan", spent=0.0, after=planned)
        header: dict[str, Any] = {
            "run": run,
            "budget": asdict(budget),
            "plan": None if plan is None else dict(plan),
        }
        if population is not None:
            header["population"] = {"id": population.id, "lineage": lineage}
            if reserve and plan is None:
                header["population"]["reserved"] = True
        with contextlib.ExitStack() as on_failure:
            lock = on_failure.enter_context(lock_writer(path))
            chain = ChainFile.create(path, header, check=_check)
            on_failure.callback(Path(path).unlink)  # it is empty
            on_failure.callback(chain.close)
            take_place(chain, population)
            ledger = cls(chain, run=run, lock=lock, population=population)
            on_failure.pop_all()
            return ledger

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        run: str = "",
        read_only: bool = False,
        population: Population | None = None,
    ) -> "Ledger":
        """Continue an existing ledger; its chain is verified first.

        Args:
            path: the file.
            run: name of the run that books from now on; default: the one the ledger was created for.
            read_only: look without claiming to be the writer.
            population: the account that the ledger was created with; not needed to look.

        Raises:
            InputError: no such file, or not a ledger; or another run than the one of its plan.
            PrivacyError: it was tampered with, another process is writing to it, or the population is
                missing, another one, or does not hold all that this ledger booked.
            StorageError: it cannot be read or written.
        """
        with contextlib.ExitStack() as on_failure:
            lock = None
            if population is not None and run:
                raise InputError(
                    f"{path}: a ledger with a population books for one run; leave out run={run!r}"
                )
            if not read_only and Path(path).is_file():
                lock = on_failure.enter_context(lock_writer(path))
            chain = ChainFile.open(path, check=_check, read_only=read_only)
            on_failure.callback(chain.close)
            if chain.header["plan"] is not None and run not in ("", chain.header["run"]):
                raise InputError(
                    f"{path}: its plan is that of run {chain.header['run']!r}, and that plan is claimed once; "
                    f"leave out run={run!r}, or start a ledger of its own"
                )
            if not read_only:
                take_place(chain, population)
            ledger = cls(chain, run=run, lock=lock, population=None if read_only else population)
            ledger._catch_up()
            on_failure.pop_all()
            return ledger

    def book(self, event: Event, *, reissue: bool = False) -> Receipt:
        """Write an event, if the budget covers it, and return once it is on disk.

        Args:
            event: JSON record of a release, as from ``GaussianRelease.event``. Public.
            reissue: when the same event of the same run is booked already and its noise is seeded, return its
                receipt instead of refusing: the release is the identical one, computed again.

        Raises:
            BudgetExceededError: all events with this one would cost more than the budget; nothing was
                written.
            PrivacyError: the event is not sound, has another adjacency than the budget, is not in the plan,
                or its name is taken; or this ledger is read-only or belongs to another process.
            StorageError: disk full or read-only; nothing was written here.
        """
        return self.book_all((event,), reissue=reissue)[0]

    def book_all(self, events: Iterable[Event], *, reissue: bool = False) -> tuple[Receipt, ...]:
        """Write several events in one transaction, if the budget covers them together; all of them or none.

        Args:
            events: as for ``book``; each with a name of its own. Public.
            reissue: as for ``book``; events that are booked already are not written again.

        Raises:
            BudgetExceededError: as for ``book``.
            PrivacyError: as for ``book``.
            StorageError: as for ``book``.
        """
        given = list(events)
        asked = {str(event.get("name")): event for event in given}
        if len(asked) < len(given):
            raise PrivacyError("the releases to book share a name; every release needs its own name")
        self._require_writer()
        for event in given:
            self._require_bookable(event)
        with self._chain.writing() as add:
            taken = {row.name: row for row in self._chain.rows() if row.run == self.run}
            new = [event for name, event in asked.items() if name not in taken]
            booked = {
                name: self._reissued(taken[name], event, reissue=reissue)
                for name, event in asked.items()
                if name in taken
            }
            if new:
                self._require_affordable(new)
                if self._population is not None:
                    self._population.book(self.id, new)
                booked |= {str(event["name"]): _receipt(add(self.run, event["name"], event)) for event in new}
        return tuple(booked[name] for name in asked)

    def require_affordable(self, events: Iterable[Event]) -> None:
        """Refuse what ``book_all`` would not book; nothing is written. What is booked already counts once.

        Raises:
            BudgetExceededError: the budget does not cover the events together.
            PrivacyError: an event is not sound, not in the plan, or for another adjacency.
        """
        given = list(events)
        for event in given:
            self._require_bookable(event)
        taken = {row.name for row in self._chain.rows() if row.run == self.run}
        new = [event for event in given if event["name"] not in taken]
        if new:
            self._require_affordable(new)

    def events(self) -> list[dict[str, Any]]:
        """All booked events, oldest first."""
        return [row.record for row in self._chain.rows()]

    def events_at(self, head: str) -> list[dict[str, Any]] | None:
        """The events that were booked when this was the head; None where it never was."""
        if head == digest(self._chain.header):
            return []
        rows = self._chain.rows()
        ends = [row.seq for row in rows if row.hash == head]
        return [row.record for row in rows[: ends[0]]] if ends else None

    @property
    def commitment(self) -> Commitment:
        """What was fixed when the ledger was made, which is what can be claimed of whatever it pays for."""
        return Commitment.of(self.budget, self.plan)

    def claim(self) -> Guarantee:
        """What is promised: the cost of the whole plan, or without a plan the budget; at the budget's delta."""
        return self.commitment.claim()

    def spent(self) -> Guarantee:
        """What all booked events count against the budget so far, at its delta and adjacency.

        Not guaranteed: that no more is revealed. Whoever stops where the outcomes suit has spent this much by then
        and revealed more; what is promised is ``claim``.
        """
        rows = self._chain.rows()
        head = rows[-1].hash if rows else ""
        if self._spent is None or self._spent[0] != head:
            self._spent = (head, self._cost(_accounted(rows)))
        return Guarantee(
            epsilon=self._spent[1], delta=self.budget.delta, adjacency=str(self.budget.adjacency)
        )

    @property
    def id(self) -> str:
        """Random name of this ledger, by which a population knows its run."""
        return self._chain.id

    @property
    def head(self) -> str:
        """Hash of the last row (or of the header): whoever knows it can tell whether the record was
        changed.
        """
        return self._chain.head

    @property
    def header(self) -> Mapping[str, Any]:
        """What was fixed when the ledger was made: budget, plan, population. Public."""
        return dict(self._chain.header)

    def rows(self) -> tuple[Row, ...]:
        """All rows, oldest first."""
        return self._chain.rows()

    def verify(
        self, *, published_head: str | None = None, published_total: PopulationTotal | None = None
    ) -> None:
        """Recompute the hash chain and check every event.

        Args:
            published_head: a ``head`` that was published, for example in a certificate; it must be in the
                chain.
            published_total: a total of the population that was published; its head must be in the chain of the
                population's account, where that is open.

        Raises:
            PrivacyError: a row was changed, removed, reordered or is not sound. Rows cut off at the end show
                only against a published head.
        """
        self._chain.verify(published_head=published_head)
        if self._population is not None and published_total is not None:
            self._population.verify(published_head=published_total.head)

    def population_total(self) -> PopulationTotal | None:
        """What all runs on the same users cost by now, or None where no account is kept."""
        return None if self._population is None else self._population.total(self.id)

    def finish(self) -> None:
        """End the run: give back to the population what was reserved and not used."""
        if self._population is not None:
            self._population.give_back(self.id)

    def close(self) -> None:
        """Close the file and let another writer in. Closing twice is allowed."""
        self._chain.close()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def __enter__(self) -> "Ledger":
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied."""
        self._chain.__reduce__()

    def _require_writer(self) -> None:
        if self._lock_file is None:
            raise PrivacyError(
                "this ledger is closed or was opened to read only; open it for writing to book"
            )

    def _require_bookable(self, event: Event) -> None:
        require_sound(event)
        if event["adjacency"] != self.budget.adjacency:
            raise PrivacyError(
                f"release {event['name']!r} is for adjacency {event['adjacency']}, the budget for "
                f"{self.budget.adjacency}; they must be the same"
            )
        require_planned(event, self.plan)

    def _cost(self, events: Sequence[Event]) -> float:
        """Epsilon of events; without a plan each may have been chosen by what earlier ones showed."""
        return epsilon_of_events(events, self.budget.delta, planned=self.plan is not None)

    def _require_affordable(self, new: Sequence[Event]) -> None:
        names = ", ".join(repr(event["name"]) for event in new)
        events = [*_accounted(self._chain.rows()), *apart(new, self.run)]
        after = self._cost(events)
        self.budget.require_affordable(f"release {names}", spent=self.spent().epsilon, after=after)

    def _reissued(self, row: Row, event: Event, *, reissue: bool) -> Receipt:
        name = event["name"]
        if not reissue:
            raise PrivacyError(f"release {name!r} is booked already; every release needs its own name")
        if event.get("private") is not False:
            raise PrivacyError(f"release {name!r} is booked already and its noise cannot be drawn again")
        if canonical_json(event) != row.text:
            raise PrivacyError(
                f"release {name!r} is booked already with other numbers; it cannot be reissued"
            )
        return _receipt(row)

    def _catch_up(self) -> None:
        """Hold this ledger against its population; take over what a crash kept from being written here too."""
        if self._population is None:
            return
        missing = missing_from(self._population, self.id, self.events())
        if missing:
            for event in missing:
                self._require_bookable(event)
            with self._chain.writing() as add:
                self._require_affordable(missing)
                for event in missing:
                    add(self.run, event["name"], event)


def _check(header: Mapping[str, Any], row: Row) -> None:
    require_sound(row.record)


def _accounted(rows: Iterable[Row]) -> list[Event]:
    return [event for row in rows for event in apart([row.record], row.run)]


def _receipt(row: Row) -> Receipt:
    return Receipt(seq=row.seq, name=row.name, event_digest=digest(row.record), hash=row.hash)


__all__ = ["Budget", "Ledger", "Receipt"]
