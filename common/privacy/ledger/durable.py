"""Durable storage: a SQLite file whose commits return only after they are on disk.

Why SQLite and these settings: in write-ahead mode with ``synchronous = FULL`` each commit syncs the log (and, for a
new log, its folder) before it returns, and a power failure leaves the commit whole or absent. Not guaranteed where
the disk or the file system says "synced" when it is not, or on network file systems, whose locks and shared memory
cannot be relied on.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fedboard.common.errors import InputError, PrivacyError, StorageError

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
