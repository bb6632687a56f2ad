"""What the SuperLink has deleted is in none of its files any more."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fedboard.server.fleet.processes.message_store import compact, forget, knows_as_gone

SECRET = b"she-rated-item-7-with-a-5" * 400


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """As a SuperLink that was killed leaves it: a row written and deleted, the log of writes still there."""
    path = tmp_path / "superlink.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as running:
        running.execute("PRAGMA journal_mode=WAL")
        running.execute("PRAGMA wal_autocheckpoint=0")
        running.execute("PRAGMA secure_delete=OFF")
        running.execute("CREATE TABLE objects (name TEXT, content BLOB)")
        running.execute("INSERT INTO objects VALUES ('kept', 'x'), ('answer', ?)", [SECRET])
        running.execute("DELETE FROM objects WHERE name = 'answer'")
        copies = [(part.name, part.read_bytes()) for part in tmp_path.iterdir()]
    left = tmp_path / "left"
    left.mkdir()
    for name, content in copies:
        if not name.endswith("-shm"):
            (left / name).write_bytes(content)
    return left / "superlink.db"


def written(database: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(database.parent.iterdir()))


def test_what_was_deleted_is_gone_and_what_was_not_is_there(database: Path) -> None:
    assert SECRET[:100] in written(database)

    compact(database)

    assert SECRET[:100] not in written(database)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name FROM objects").fetchall() == [("kept",)]


def test_no_database_and_one_that_is_none_are_left_alone(tmp_path: Path) -> None:
    compact(tmp_path / "superlink.db")
    assert list(tmp_path.iterdir()) == []

    broken = tmp_path / "superlink.db"
    broken.write_bytes(b"not a database" * 1000)
    compact(broken)
    assert broken.read_bytes() == b"not a database" * 1000


def test_a_node_that_the_superlink_has_struck_off_is_known_and_all_can_be_forgotten(tmp_path: Path) -> None:
    """It takes no key twice: a key that is back in the settings would keep the server from beginning, for ever."""
    path = tmp_path / "superlink.db"
    assert not knows_as_gone(path, ["KEY"]), "there is none yet"
    with closing(sqlite3.connect(path, isolation_level=None)) as running:
        running.execute("PRAGMA journal_mode=WAL")
        assert not knows_as_gone(path, ["KEY"]), "half made"
        running.execute("CREATE TABLE node (public_key BLOB, status TEXT)")
        running.execute("INSERT INTO node VALUES (?, 'unregistered'), (?, 'online')", [b"KEY", b"OTHER"])
        assert knows_as_gone(path, ["OTHER", "KEY"])
        assert not knows_as_gone(path, ["OTHER"])
        assert not knows_as_gone(path, [])

    forget(path)

    assert list(tmp_path.iterdir()) == []


def test_its_files_are_their_owners_only(database: Path) -> None:
    for path in database.parent.iterdir():
        path.chmod(0o644)

    compact(database)

    assert {path.stat().st_mode & 0o777 for path in database.parent.iterdir()} == {0o600}
