"""The file of a ledger: an append-only list of JSON records, each chained to the one before by SHA-256."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.ledger.chain_rows import (
    RUN,
    TAMPERED,
    Row,
    chained_row,
    connect,
    failures_named,
    genuine_row,
    kind_of,
    now,
    read_header,
    require_header,
    settle,
    transaction,
    write_empty,
)

_NOT_WRITTEN = "nothing was booked, so nothing is released"


Check = Callable[[Mapping[str, Any], Row], None]
"""(header, row) -> None; raises PrivacyError where a record cannot be one of this file."""
Add = Callable[[str, str, Mapping[str, Any]], Row]
"""(run, name, record) -> the row that is going to be written."""


class ChainFile:
    """Rows of a ledger in one SQLite file; several processes may have it open.

    Guarantee: when ``writing`` ends without an exception its rows are on disk, all of them; otherwise none is.
    What is read is checked against the chain first.
    Not guaranteed: protection from an owner who rewrites the whole file; publish ``head`` to be bound to it.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, kind: str, check: Check) -> None:
        """Use ``ChainFile.create`` or ``ChainFile.open``."""
        self.path = path
        self._place = path.resolve()
        self._file = _identity(self._place)
        self._connection: sqlite3.Connection | None = connection
        self._check = check
        self._process = os.getpid()
        self._lock = threading.RLock()
        self.header = read_header(connection)
        if kind_of(self.header) != kind:
            raise InputError(f"{path}: this is the ledger of a {kind_of(self.header)}, not of a {kind}")
        require_header(self.header, kind=kind)
        self._rows: list[Row] = []
        self._rows = self._whole()

    @classmethod
    def create(
        cls, path: str | Path, header: Mapping[str, Any], *, check: Check, kind: str = RUN
    ) -> "ChainFile":
        """Write a file without rows, in one step, and open it; the caller holds the writer's lock.

        Args:
            path: a file that does not exist yet.
            header: what is fixed for good. Public.
            check: what a record must meet beyond the chain.
            kind: whose ledger it is.

        Raises:
            InputError: something is there already.
            StorageError: it cannot be written.
        """
        if Path(path).exists():
            raise InputError(
                f"{path}: a ledger or another file is there already; open it or choose another path"
            )
        with failures_named(path, outcome="the ledger was not made"):
            write_empty(Path(path), header, kind=kind)
        return cls.open(path, check=check, kind=kind)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        check: Check,
        kind: str = RUN,
        read_only: bool = False,
        patience: float = 5.0,
    ) -> "ChainFile":
        """Open a file and verify its chain.

        Args:
            path: the file.
            check: what a record must meet beyond the chain.
            kind: whose ledger it must be.
            read_only: nothing can be written.
            patience: seconds to wait while another process writes.

        Raises:
            InputError: no such file, or not a ledger.
            PrivacyError: it was tampered with or is damaged.
            StorageError: it cannot be read.
        """
        with contextlib.ExitStack() as on_failure, _readable(path):
            connection = connect(path, read_only=read_only, patience=patience)
            on_failure.callback(connection.close)
            opened = cls(Path(path), connection, kind=kind, check=check)
            on_failure.pop_all()
            return opened

    @property
    def id(self) -> str:
        """Random name of this file, for example of the run that it belongs to."""
        return str(self.header.get("id", ""))

    @property
    def head(self) -> str:
        """Hash of the last row, or of the header: whoever knows it can tell whether the file was changed."""
        rows = self.rows()
        return rows[-1].hash if rows else digest(self.header)

    def rows(self) -> tuple[Row, ...]:
        """All rows, oldest first, with those that other processes have added by now.

        Raises:
            PrivacyError: a row was changed, removed, reordered or cannot be one.
        """
        with self._lock, failures_named(self.path, outcome="the ledger cannot be read"):
            self._read_on()
            return tuple(self._rows)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Add]:
        """Keep other processes from writing while the block decides; write what it adds when it ends.

        Raises:
            PrivacyError: the file is closed, belongs to another process, or was tampered with.
            StorageError: disk full, read-only or locked; nothing was written.
        """
        connection = self._open_here()
        known = len(self._rows)
        with self._lock, failures_named(self.path, outcome=_NOT_WRITTEN):
            try:
                with transaction(connection):
                    self._read_on()
                    known = len(self._rows)
                    yield self._add
            except BaseException:
                del self._rows[known:]
                raise
            settle(connection)

    def verify(self, *, published_head: str | None = None) -> None:
        """Read the whole file again and recompute its chain.

        Args:
            published_head: a ``head`` that was published, for example in a certificate; it must be in the
                chain.

        Raises:
            PrivacyError: a row was changed, removed, reordered or cannot be one. Rows cut off at the end show
                only against a published head.
        """
        with self._lock, failures_named(self.path, outcome="the ledger cannot be read"):
            rows = self._whole()
        if published_head is not None and published_head not in {
            digest(self.header),
            *(row.hash for row in rows),
        }:
            raise PrivacyError(f"{TAMPERED}: a published head is not in its chain")

    def close(self) -> None:
        """Close the file. Closing twice is allowed; what was read before can still be looked at."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: a copy would not know what the original writes."""
        raise PrivacyError(
            f"{self.path}: an open ledger cannot be pickled or copied; open it where it is needed"
        )

    def _open_here(self) -> sqlite3.Connection:
        if self._connection is None:
            raise PrivacyError(f"{self.path}: this ledger is closed; open it to book")
        if os.getpid() != self._process:
            raise PrivacyError("a ledger books in the process that opened it; book before starting workers")
        if _identity(self._place) != self._file:
            raise PrivacyError(
                f"{self.path}: the ledger was moved or replaced while it was open; put it back and open it again"
            )
        return self._connection

    def _whole(self) -> list[Row]:
        return self._read(after=0, previous=digest(self.header))

    def _read_on(self) -> None:
        if self._connection is None:
            return
        if not self._rows:
            self._rows = self._whole()
            return
        last = self._rows[-1]
        query = "SELECT hash FROM events WHERE seq = ?"
        if self._connection.execute(query, (last.seq,)).fetchone() != (last.hash,):
            raise PrivacyError(f"{TAMPERED}: row {last.seq} was changed or removed while it was open")
        self._rows += self._read(after=last.seq, previous=last.hash)

    def _read(self, *, after: int, previous: str) -> list[Row]:
        if self._connection is None:
            return self._rows
        query = "SELECT seq, time, run, name, event, previous, hash FROM events WHERE seq > ? OR ? = 0 ORDER BY seq"
        found = []
        for expected, stored in enumerate(self._connection.execute(query, (after, after)), start=after + 1):
            row = genuine_row(stored, expected=expected, previous=previous)
            self._check(self.header, row)
            found.append(row)
            previous = row.hash
        return found

    def _add(self, run: str, name: str, record: Mapping[str, Any]) -> Row:
        previous = self._rows[-1].hash if self._rows else digest(self.header)
        row = chained_row(
            seq=len(self._rows) + 1, time=now(), run=run, name=name, record=record, previous=previous
        )
        stored = (row.seq, row.time, run, name, row.text, previous, row.hash)
        self._open_here().execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", stored)
        self._rows.append(row)
        return row


def peek(path: str | Path) -> dict[str, Any]:
    """The header of a file, unchecked, to see what it is.

    Raises:
        InputError: no such file, or not a ledger.
        StorageError: it cannot be read.
    """
    with _readable(path), contextlib.closing(connect(path, read_only=True)) as connection:
        return read_header(connection)


@contextlib.contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Say in one sentence why a file is not a ledger that can be read."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such ledger")
    with failures_named(path, outcome="the ledger cannot be read"):
        try:
            yield
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{path}: not a ledger ({error})") from None
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
                raise
            raise InputError(f"{path}: not a ledger ({error})") from None


def _identity(place: Path) -> tuple[int, int] | None:
    """Which file a name stands for; None where there is none."""
    try:
        found = place.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
