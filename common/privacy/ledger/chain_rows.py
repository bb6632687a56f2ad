"""What is in the file of a ledger, and how it gets to the disk: one header, and rows chained by SHA-256.

Anybody may have written the file: a header must be sound before it is relied upon.

It is a SQLite file whose commits return only after they are on disk: in write-ahead mode with
``synchronous = FULL`` each commit syncs the log (and, for a new log, its folder) before it returns, and a power
failure leaves the commit whole or absent. Not guaranteed where the disk or the file system says "synced" when it
is not, or on network file systems, whose locks and shared memory cannot be relied on.
"""

import contextlib
import fcntl
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from fedboard.common.errors import InputError, PrivacyError, StorageError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.commitment import sound_plan
from fedboard.common.privacy.events import canonical_json, digest

_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then try again (a run goes on with --resume)",
    sqlite3.SQLITE_IOERR: (
        "the disk is full or failed; free some space or mend it, then try again (a run goes on with --resume)"
    ),
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written; mend that and try again",
    sqlite3.SQLITE_CANTOPEN: "the file or its folder cannot be opened; mend that and try again",
    sqlite3.SQLITE_BUSY: "another process has kept it locked; try again when that is done",
}
_TIDYING_MS = 200
_PRIMARY = 0xFF  # an extended result code carries its kind in the low byte


def connect(path: str | Path, *, read_only: bool = False, patience: float = 5.0) -> sqlite3.Connection:
    """Open a database whose commits return only after they are on disk.

    Args:
        path: the file.
        read_only: nothing can be written; works on read-only media too, where no commit is pending.
        patience: seconds to wait while another process writes.

    Raises:
        sqlite3.DatabaseError: the file is not a database, or cannot be opened.
    """
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=patience)
    try:
        if read_only:
            return _reader(path, connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        connection.close()
        raise
    return connection


def _reader(path: str | Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """A reader in write-ahead mode needs the log's index beside the file; on read-only media there is none."""
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.OperationalError:
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size > 0:
            raise
        connection.close()
        uri = f"{Path(path).resolve().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, durably, or nothing; no other process writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some failures have rolled back already
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def failures_named(path: str | Path, *, outcome: str) -> Iterator[None]:
    """Turn what the storage reports in the block into one sentence.

    Args:
        path: the file.
        outcome: what a failure means, for the message.

    Raises:
        StorageError: disk full, quota, read-only or locked.
        PrivacyError: the file is damaged.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", 0)
        reason = _REASONS.get(code & _PRIMARY, f"the storage failed ({error}); mend that and try again")
        raise StorageError(f"{path}: {outcome}: {reason}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter from SQLite's own words
        raise PrivacyError(f"{path}: {outcome}: the file is damaged ({error}); restore it") from error


def settle(connection: sqlite3.Connection) -> None:
    """Move what is committed from the log into the file, so that a copy of the file alone is complete.

    What is committed is durable without this, so a failure here changes nothing and is tried again next time;
    nor is a slow reader waited for.
    """
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute(f"PRAGMA busy_timeout = {_TIDYING_MS}").fetchall()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute(f"PRAGMA busy_timeout = {patience}").fetchall()


def lock_writer(path: str | Path) -> IO[bytes]:
    """Hold an advisory lock beside the file; the system drops it when the process ends, however it ends.

    Raises:
        InputError: the folder does not exist or cannot be written, or the file has a second name.
        PrivacyError: somebody else holds the lock.
    """
    place = Path(path).resolve()  # one lock whatever name a link gives the file
    try:
        _require_one_name(place)
        lock = open(f"{place}.lock", "a+b")  # noqa: SIM115 (held until close)
    except OSError as error:
        raise InputError(f"{path}: the ledger cannot be written there ({error.strerror})") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = _owner(lock)
        lock.close()
        raise PrivacyError(
            f"{path}: another process is writing to this ledger{owner}; only one may. Wait for it or end it"
        ) from None
    with contextlib.suppress(OSError):  # the number is a courtesy, the lock is what counts
        lock.truncate(0)
        lock.write(str(os.getpid()).encode())
        lock.flush()
    return lock


def _require_one_name(place: Path) -> None:
    if place.exists() and place.stat().st_nlink > 1:
        raise InputError(
            f"{place}: this ledger has a second name (a hard link), so two processes could write to it unseen; "
            "remove the other name, or go on with a copy"
        )


def _owner(lock: IO[bytes]) -> str:
    lock.seek(0)
    number = lock.read(20).decode(errors="replace").strip()
    return f" (process {number})" if number.isdigit() else ""


def sync_folder(path: str | Path) -> None:
    """Make the name of a new file durable."""
    descriptor = os.open(Path(path).resolve().parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


RUN = "run"
"""Kind of the ledgers that pay for releases."""
POPULATION = "population"
"""Kind of the accounts that add up over runs."""
_FORMAT = 1
_SCHEMA = """
CREATE TABLE meta (header TEXT NOT NULL);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, time TEXT NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL, event TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (run, name)
);
"""
_OBJECTS = {("table", "meta"), ("table", "events"), ("index", "sqlite_autoindex_events_1")}
TAMPERED = "the ledger was tampered with"
"""How messages about it begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record as it is in the file. Every field is public."""

    seq: int
    """1 for the first."""
    time: str
    """When it was written by the writer's clock, UTC. For people: the order is that of ``seq``."""
    run: str
    name: str
    """Unique in its run."""
    text: str
    """The record as canonical JSON."""
    hash: str
    """SHA-256 over this row and the hash of the row before."""

    @property
    def record(self) -> dict[str, Any]:
        """The record, as a copy of its own."""
        return dict(json.loads(self.text))


def kind_of(header: Mapping[str, Any]) -> str:
    """Whose ledger a header belongs to."""
    return str(header.get("kind", RUN))


def chained_row(*, seq: int, time: str, run: str, name: str, record: Mapping[str, Any], previous: str) -> Row:
    """The row that follows the one whose hash is ``previous`` (the first follows the header's digest)."""
    hashed = {"seq": seq, "time": time, "run": run, "event": dict(record), "previous": previous}
    text = canonical_json(record)
    return Row(seq=seq, time=time, run=run, name=name, text=text, hash=digest(hashed))


def genuine_row(stored: tuple[Any, ...], *, expected: int, previous: str) -> Row:
    """Read a row as it is stored.

    Args:
        stored: sequence number, time, run, name, record as text, hash of the row before, hash.
        expected: the number that it must have.
        previous: hash of the row before.

    Raises:
        PrivacyError: it is not the row that was written there.
    """
    seq, time, run, name, text, before, stored_hash = stored
    try:
        record = dict(json.loads(text))
        row = chained_row(seq=seq, time=time, run=run, name=name, record=record, previous=previous)
    except (ValueError, TypeError, RecursionError, PrivacyError):
        raise PrivacyError(f"{TAMPERED}: row {expected} is not JSON") from None
    same = (row.text, row.hash, record.get("name")) == (text, stored_hash, name)
    if not same or (seq, before) != (expected, previous):
        raise PrivacyError(f"{TAMPERED}: row {expected} does not match its chain")
    return row


def read_header(connection: sqlite3.Connection) -> dict[str, Any]:
    """The header of an open file.

    Raises:
        InputError: another format.
        PrivacyError: there is not just one header, or there is something else in the file.
    """
    headers = connection.execute("SELECT header FROM meta").fetchall()
    if len(headers) != 1:
        raise PrivacyError(f"{TAMPERED}: it has {len(headers)} headers")
    header: dict[str, Any] = json.loads(headers[0][0])
    if not isinstance(header, dict):
        raise PrivacyError(f"{TAMPERED}: its header is no table")
    if header.get("format") != _FORMAT:
        raise InputError(
            f"this ledger has format {header.get('format')!r}; this version reads format {_FORMAT}"
        )
    objects = set(connection.execute("SELECT type, name FROM sqlite_schema"))
    if objects != _OBJECTS:
        foreign = ", ".join(sorted(name for _, name in objects ^ _OBJECTS))
        raise PrivacyError(f"{TAMPERED}: its tables are not those of a ledger ({foreign})")
    return header


def write_empty(path: Path, header: Mapping[str, Any], *, kind: str) -> None:
    """Put a file without rows in place in one step: a crash leaves a whole one or none.

    The header gets the format, the kind, the time and a random ``id``.
    """
    whole = {"format": _FORMAT, "kind": kind, "id": secrets.token_hex(16), "created": now(), **header}
    partial = path.with_name(f"{path.name}.part")
    for leftover in (partial, *(Path(f"{partial}-{log}") for log in ("wal", "shm"))):
        leftover.unlink(missing_ok=True)
    with contextlib.closing(connect(partial)) as connection, transaction(connection):
        for statement in _SCHEMA.split(";")[:-1]:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES (?)", (canonical_json(whole),))
    os.replace(partial, path)  # closing has moved the write-ahead log into the file
    sync_folder(path)


def now() -> str:
    """The time for a row, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


_BUDGET = {"epsilon", "delta", "adjacency"}


def require_header(header: Mapping[str, Any], *, kind: str) -> None:
    """Refuse a header that no ledger of this kind was made with.

    Raises:
        PrivacyError: which part of it is missing, or is something else.
    """
    if kind not in (RUN, POPULATION):  # it pays for nothing: the record of a second server
        return
    budget = require_budget(header.get("budget"))
    if kind == POPULATION:
        limit = header.get("lineage_epsilon", "missing")
        if limit is not None and not _is_number(limit):
            raise PrivacyError(f"{TAMPERED}: the budget of a lineage in its header is no number")
        return
    if not isinstance(header.get("run"), str):
        raise PrivacyError(f"{TAMPERED}: its header names no run")
    require_plan(header.get("plan", "missing"), budget)
    account = header.get("population")
    if account is not None:
        lineage = account.get("lineage") if isinstance(account, Mapping) else 0
        if not (lineage is None or isinstance(lineage, str)) or not isinstance(account.get("id"), str):
            raise PrivacyError(f"{TAMPERED}: its header names no population")


def require_plan(plan: object, budget: Budget) -> None:
    """Refuse what is neither a plan nor None.

    Raises:
        PrivacyError: why it is none.
    """
    if plan is None:
        return
    if not isinstance(plan, Mapping):
        raise PrivacyError(f"{TAMPERED}: what stands there as a plan is none")
    sound_plan(plan, budget)


def require_budget(stated: object) -> Budget:
    """The budget that is stated.

    Raises:
        PrivacyError: it is none, or a number is out of range.
    """
    if not isinstance(stated, Mapping) or set(stated) != _BUDGET:
        raise PrivacyError(f"{TAMPERED}: its header states no budget")
    if not _is_number(stated["epsilon"]) or not _is_number(stated["delta"]):
        raise PrivacyError(f"{TAMPERED}: the budget in its header is no number")
    return Budget(**stated)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
