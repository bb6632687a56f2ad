"""A disk that fills up ends no server: its parts end in a sentence, and the supervisor goes on."""

import errno
import sqlite3
from pathlib import Path
from threading import Event

import pytest

from fedboard.common.errors import StorageError
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.processes import supervisor as supervisor_module
from fedboard.server.fleet.processes.children import Child
from fedboard.server.fleet.processes.lifeline import told_in_a_sentence
from fedboard.server.fleet.processes.supervisor import Supervisor
from tests.server.fleet.opened import a_fleet

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "error",
    [FULL, sqlite3.OperationalError("database or disk is full"), StorageError("members.sqlite: full")],
)
def test_a_supervisor_that_cannot_write_says_so_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    settings, told, tries, stop = a_fleet(tmp_path), list[str](), list[int](), Event()

    def written(*_: object) -> None:
        tries.append(1)
        if len(tries) < 4:
            raise error
        stop.set()

    monkeypatch.setattr(Child, "tend", lambda *_: False)
    monkeypatch.setattr(supervisor_module, "write_atomically", written)
    monkeypatch.setattr(supervisor_module, "_LOOK_SECONDS", 0.0)

    Supervisor(settings, tmp_path / "fleet.toml", say=told.append).run(stop, until_trained=False)

    assert [str(error) in line and "tried again" in line for line in told] == [True]


def invite_many(register: Register) -> None:
    for number in range(500):
        register.invite(number.to_bytes(32, "little"), name=f"n{number}", max_users=1, seconds=60)


def test_a_register_on_a_full_disk_says_what_is_wrong_and_works_again_with_room(tmp_path: Path) -> None:
    with Register(tmp_path / "members.sqlite") as register:
        (pages,) = register._database.execute("PRAGMA page_count").fetchone()
        register._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageError, match=r"members\.sqlite: .* \(database or disk is full\)"):
            invite_many(register)
        there = len(register.invitations())
        register._database.execute("PRAGMA max_page_count = 100000")

        register.invite(b"again" * 6 + b"..", name="again", max_users=1, seconds=60)

        assert len(register.invitations()) == there + 1


def test_a_part_that_cannot_write_ends_in_a_sentence_and_one_that_is_stopped_without_one() -> None:
    said = r"the board service ends: \[Errno 28\] No space left"
    with pytest.raises(SystemExit, match=said), told_in_a_sentence("the board service"):
        raise FULL
    with pytest.raises(SystemExit) as stopped, told_in_a_sentence("the proxy"):
        raise KeyboardInterrupt
    assert stopped.value.code == 0
    with pytest.raises(AssertionError), told_in_a_sentence("the proxy"):
        raise AssertionError("a mistake of ours is shown where it was made")
