"""SQLite files taken apart into their rows, and put together again: with rows changed, still a database."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.chain_rows import chained_row
from fleets.fuzz.documents import Form, Inside, Pairs, Raw, opened, to_json

_NO_LOG = b"\x01\x01"
"""In place of the marks of a write-ahead log, which a database in memory cannot have."""


def _read(content: bytes) -> tuple[Any, bytes]:
    with _in_memory(content) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        names = [name for name in names if not name.startswith("sqlite_")]
        tables = [
            (name, [list(row) for row in database.execute(f'SELECT * FROM "{name}"')]) for name in names
        ]
    return Pairs((name, [[opened(cell) for cell in row] for row in rows]) for name, rows in tables), content


def _write(document: Any, content: bytes) -> bytes:
    """With the rows of the document, in the tables that were there before."""
    try:
        with _in_memory(content) as database:
            database.execute("PRAGMA ignore_check_constraints = ON")
            for name, rows in document:
                database.execute(f'DELETE FROM "{name}"')
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    database.execute(f'INSERT INTO "{name}" VALUES ({marks})', [_cell(cell) for cell in row])
            return bytes(database.serialize())
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None


DATABASE = Form(_read, _write)


def _cell(value: Any) -> Any:
    if isinstance(value, Inside):
        return to_json(value.value)
    if isinstance(value, list):
        return to_json(value)
    return str(value) if isinstance(value, Raw) else value


@contextlib.contextmanager
def _in_memory(content: bytes) -> Any:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.deserialize(content[:18] + _NO_LOG + content[20:])
        yield database


def chain_again(place: Path) -> None:
    """Let the rows of a ledger follow each other again, as whoever has the file can do: it holds no secret."""
    with (
        contextlib.suppress(
            sqlite3.Error, ArithmeticError, ValueError, TypeError, RecursionError, PrivacyError
        ),
        contextlib.closing(sqlite3.connect(place, isolation_level=None)) as database,
    ):
        database.execute("PRAGMA synchronous = OFF")
        previous = digest(json.loads(database.execute("SELECT header FROM meta").fetchone()[0]))
        rows = database.execute("SELECT rowid, seq, time, run, event FROM events ORDER BY seq").fetchall()
        for row, seq, time, run, event in rows:
            record = dict(json.loads(event))
            name = record.get("name")
            linked = chained_row(seq=seq, time=time, run=run, name=name, record=record, previous=previous)
            database.execute(
                "UPDATE events SET name = ?, event = ?, previous = ?, hash = ? WHERE rowid = ?",
                (name, linked.text, previous, linked.hash, row),
            )
            previous = linked.hash
