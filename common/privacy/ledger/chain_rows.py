"""What is in the file of a ledger: one header, and rows chained to it and to each other by SHA-256.

Anybody may have written the file: a header must be sound before it is relied upon.
"""

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.commitment import sound_plan
from fedboard.common.privacy.events import canonical_json, digest
from fedboard.common.privacy.ledger.durable import connect, sync_folder, transaction

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
