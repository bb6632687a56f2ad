"""Durable storage: a SQLite file with one writer, synced before a commit returns."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fedboard.common.errors import InputError, PrivacyError


def connect(path: str | Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a database whose commits return only after they are on disk.

    Raises:
        sqlite3.DatabaseError: the file is not a database.
    """
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, durably, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def lock_writer(path: str | Path) -> IO[bytes]:
    """Hold an advisory lock beside the file; the system drops it when the process ends, however it ends.

    Raises:
        InputError: the folder does not exist or cannot be written.
        PrivacyError: somebody else holds the lock.
    """
    try:
        lock = open(f"{path}.lock", "ab")  # noqa: SIM115 (held until close)
    except OSError as error:
        raise InputError(f"{path}: the ledger cannot be written there ({error.strerror})") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise PrivacyError(f"{path}: another process is writing to this ledger; only one may") from None
    return lock


def sync_folder(path: str | Path) -> None:
    """Make the name of a new file durable."""
    descriptor = os.open(Path(path).resolve().parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["connect", "lock_writer", "sync_folder", "transaction"]
