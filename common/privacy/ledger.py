"""The ledger: the append-only record of every release, durable before the release leaves the server."""

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting import compose, epsilon_of, epsilon_of_events
from fedboard.common.privacy.budget import Budget
from fedboard.common.privacy.durable import connect, lock_writer, sync_folder, transaction
from fedboard.common.privacy.events import (
    RELATIVE_TOLERANCE,
    Event,
    canonical_json,
    digest,
    require_sound,
)
from fedboard.common.privacy.guarantee import Guarantee

_FORMAT = 1
_SCHEMA = """
CREATE TABLE meta (header TEXT NOT NULL);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, time TEXT NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL, event TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (run, name)
);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that an event is in the ledger."""

    seq: int
    name: str
    event_digest: str
    """SHA-256 of the event's canonical JSON."""
    hash: str
    """Hash of the ledger's row."""


class Ledger:
    """Record of releases with a budget, in one SQLite file, each row chained to the one before by SHA-256.

    Guarantee: when ``book`` returns, the event is on disk (write-ahead log, fsync) and all events together
    cost at most the budget; when it raises, nothing was written. One writer at a time; a second one is
    refused.
    Not guaranteed: protection from an owner who rewrites the whole file; publish ``head`` to be bound to it.
    """

    def __init__(self, connection: sqlite3.Connection, *, run: str, lock: IO[bytes] | None) -> None:
        """Use ``Ledger.create`` or ``Ledger.open``."""
        self._connection = connection
        self._lock_file = lock
        self._process = os.getpid()
        self._thread_lock = threading.Lock()
        self._header = _read_header(connection)
        self.budget = Budget(**self._header["budget"])
        self.plan: Mapping[str, float] | None = self._header["plan"]
        self.run = run or self._header["run"]
        self.verify()
        self._booked: list[Event] = list(self.events())

    @classmethod
    def create(
        cls, path: str | Path, budget: Budget, *, run: str = "run", plan: Mapping[str, float] | None = None
    ) -> "Ledger":
        """Start a new ledger.

        Args:
            path: a file that does not exist yet.
            budget: public.
            run: name of the run that books; part of every row.
            plan: release name -> noise multiplier of every release of the run. With a plan, the whole run is
                checked against the budget now, and later only planned releases with at least the planned
                noise are accepted.

        Raises:
            InputError: the file exists already or its folder does not.
            BudgetExceededError: the plan costs more than the budget.
        """
        if plan is not None:
            planned = epsilon_of(budget.delta, mu=compose(plan.values()))
            budget.require_affordable("the whole plan", spent=0.0, after=planned)
        if Path(path).exists():
            raise InputError(
                f"{path}: a ledger or another file is there already; open it or choose another path"
            )
        header = {"format": _FORMAT, "created": _now(), "run": run, "budget": asdict(budget)}
        header["plan"] = None if plan is None else dict(plan)
        with contextlib.ExitStack() as on_failure:
            lock = on_failure.enter_context(lock_writer(path))
            _write_empty(Path(path), header)
            connection = connect(path)
            on_failure.callback(connection.close)
            ledger = cls(connection, run=run, lock=lock)
            on_failure.pop_all()
            return ledger

    @classmethod
    def open(cls, path: str | Path, *, run: str = "", read_only: bool = False) -> "Ledger":
        """Continue an existing ledger; its chain is verified first.

        Args:
            path: the file.
            run: name of the run that books from now on; default: the one the ledger was created for.
            read_only: look without claiming to be the writer.

        Raises:
            InputError: no such file, or not a ledger.
            PrivacyError: it was tampered with, or another process is writing to it.
        """
        if not Path(path).is_file():
            raise InputError(f"{path}: no such ledger")
        with contextlib.ExitStack() as on_failure:
            lock = None if read_only else on_failure.enter_context(lock_writer(path))
            try:
                connection = connect(path, read_only=read_only)
                on_failure.callback(connection.close)
                ledger = cls(connection, run=run, lock=lock)
            except (sqlite3.DatabaseError, ValueError, KeyError, TypeError) as error:
                raise InputError(f"{path}: not a ledger ({error})") from None
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
        """
        self._require_writer()
        require_sound(event)
        self._require_planned(event)
        with self._thread_lock:
            taken = self._row_named(event["name"])
            if taken is not None:
                return self._reissued(taken, event, reissue=reissue)
            after = epsilon_of_events([*self._booked, event], self.budget.delta)
            self.budget.require_affordable(
                f"release {event['name']!r}", spent=self.spent().epsilon, after=after
            )
            receipt = self._append(event)
            self._booked.append(event)
            return receipt

    def events(self) -> list[dict[str, Any]]:
        """All booked events, oldest first."""
        rows = self._connection.execute("SELECT event FROM events ORDER BY seq")
        return [json.loads(text) for (text,) in rows]

    def spent(self) -> Guarantee:
        """What all booked events cost together, at the budget's delta and adjacency."""
        epsilon = epsilon_of_events(self._booked, self.budget.delta)
        return Guarantee(epsilon=epsilon, delta=self.budget.delta, adjacency=self.budget.adjacency)

    @property
    def head(self) -> str:
        """Hash of the last row (or of the header): whoever knows it can tell whether the record was
        changed.
        """
        row = self._connection.execute("SELECT hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
        return str(row[0]) if row else digest(self._header)

    def verify(self, *, published_head: str | None = None) -> None:
        """Recompute the hash chain and check every event.

        Args:
            published_head: a ``head`` that was published, for example in a certificate; it must be in the
                chain.

        Raises:
            PrivacyError: a row was changed, removed, reordered or is not sound. Rows cut off at the end show
                only against a published head.
        """
        previous = digest(self._header)
        seen = {previous}
        rows = self._connection.execute(
            "SELECT seq, time, run, name, event, previous, hash FROM events ORDER BY seq"
        )
        for expected, (seq, time, run, name, text, before, stored) in enumerate(rows, start=1):
            event = _decode_event(text, seq)
            genuine = _row_hash(seq=seq, time=time, run=run, event=event, previous=previous)
            if (seq, before, stored, name) != (expected, previous, genuine, event.get("name")):
                raise PrivacyError(f"the ledger was tampered with: row {expected} does not match its chain")
            require_sound(event)
            previous = genuine
            seen.add(genuine)
        if published_head is not None and published_head not in seen:
            raise PrivacyError("the ledger was tampered with: a published head is not in its chain")

    def close(self) -> None:
        """Close the file and let another writer in. Closing twice is allowed."""
        self._connection.close()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def __enter__(self) -> "Ledger":
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _require_writer(self) -> None:
        if self._lock_file is None:
            raise PrivacyError(
                "this ledger is closed or was opened to read only; open it for writing to book"
            )
        if os.getpid() != self._process:
            raise PrivacyError("a ledger books in the process that opened it; book before starting workers")

    def _require_planned(self, event: Event) -> None:
        if event["adjacency"] != self.budget.adjacency:
            raise PrivacyError(
                f"release {event['name']!r} is for adjacency {event['adjacency']}, the budget for "
                f"{self.budget.adjacency}; they must be the same"
            )
        if self.plan is None:
            return
        planned = self.plan.get(event["name"])
        if planned is None or event["noise_multiplier"] < planned * (1 - RELATIVE_TOLERANCE):
            raise PrivacyError(
                f"release {event['name']!r} with noise multiplier {event['noise_multiplier']} is not in "
                f"the run plan of this ledger (planned: {planned})"
            )

    def _row_named(self, name: str) -> tuple[int, str, str] | None:
        query = "SELECT seq, event, hash FROM events WHERE run = ? AND name = ?"
        row: tuple[int, str, str] | None = self._connection.execute(query, (self.run, name)).fetchone()
        return row

    def _reissued(self, row: tuple[int, str, str], event: Event, *, reissue: bool) -> Receipt:
        seq, text, row_hash = row
        name = event["name"]
        if not reissue:
            raise PrivacyError(f"release {name!r} is booked already; every release needs its own name")
        if event.get("private") is not False:
            raise PrivacyError(f"release {name!r} is booked already and its noise cannot be drawn again")
        if canonical_json(event) != text:
            raise PrivacyError(
                f"release {name!r} is booked already with other numbers; it cannot be reissued"
            )
        return Receipt(seq=seq, name=name, event_digest=digest(event), hash=row_hash)

    def _append(self, event: Event) -> Receipt:
        text, time, previous = canonical_json(event), _now(), self.head
        with transaction(self._connection):
            seq = len(self._booked) + 1
            row_hash = _row_hash(seq=seq, time=time, run=self.run, event=event, previous=previous)
            row = (seq, time, self.run, event["name"], text, previous, row_hash)
            self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        # Into the main file at once, so that a copy of it alone is complete.
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Receipt(seq=seq, name=event["name"], event_digest=digest(event), hash=row_hash)


def _write_empty(path: Path, header: Mapping[str, Any]) -> None:
    """Put a ledger without rows in place in one step: a crash leaves a whole one or none."""
    partial = path.with_name(f"{path.name}.part")
    partial.unlink(missing_ok=True)
    with contextlib.closing(connect(partial)) as connection, transaction(connection):
        for statement in _SCHEMA.split(";")[:-1]:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES (?)", (canonical_json(header),))
    os.replace(partial, path)  # closing has moved the write-ahead log into the file
    sync_folder(path)


def _row_hash(*, seq: int, time: str, run: str, event: Event, previous: str) -> str:
    return digest({"seq": seq, "time": time, "run": run, "event": dict(event), "previous": previous})


def _decode_event(text: str, seq: int) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        raise PrivacyError(f"the ledger was tampered with: row {seq} is not JSON") from None


def _read_header(connection: sqlite3.Connection) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(connection.execute("SELECT header FROM meta").fetchone()[0])
    if header.get("format") != _FORMAT:
        raise InputError(
            f"this ledger has format {header.get('format')!r}; this version reads format {_FORMAT}"
        )
    return header


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


__all__ = ["Budget", "Ledger", "Receipt"]
