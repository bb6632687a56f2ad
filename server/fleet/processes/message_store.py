"""The SuperLink's database, between two lives of the SuperLink: what it has deleted is taken out of its files."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path


def compact(database: Path) -> None:
    """Empty the log of writes and write the database anew, so that it holds what is in it and nothing else.

    A row that is deleted stays in the file, and a finished write in the log, until something is written over it.
    Nobody may have the database open; one that is half made or damaged is left as it is.

    Args:
        database: need not be there.
    """
    if not database.exists():
        return
    for path in database.parent.glob(f"{database.name}*"):
        path.chmod(0o600)
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the new file went through the log as well


def knows_as_gone(database: Path, keys: Iterable[str]) -> bool:
    """Whether the SuperLink has struck one of these nodes off; it takes no key twice, so it needs a new database.

    Args:
        database: need not be there.
        keys: public keys, PEM text.
    """
    wanted = {key.encode() for key in keys}
    if not database.exists() or not wanted:
        return False
    with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT public_key FROM node WHERE status = 'unregistered'")
        return any(bytes(key) in wanted for (key,) in rows)
    return False


def forget(database: Path) -> None:
    """Delete it, so that the SuperLink begins a new one: nothing is in it that is not elsewhere too."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()
