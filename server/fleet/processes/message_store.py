"""The SuperLink's database, between two lives of the SuperLink: what it has deleted is taken out of its files."""

import sqlite3
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
