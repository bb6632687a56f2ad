"""A disk that fills up ends no server: its parts end in a sentence, and the supervisor goes on, never silent."""

import errno
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import Event, Timer
from types import SimpleNamespace

import pytest

from fedboard.common.errors import StorageError
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.processes import supervisor as supervisor_module
from fedboard.server.fleet.processes.children import Child
from fedboard.server.fleet.processes.lifeline import told_in_a_sentence
from fedboard.server.fleet.processes.supervisor import Supervisor
from tests.server.fleet.deployed import Fleet
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


def test_a_full_disk_stops_all_parts_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, told, did, stop = a_fleet(tmp_path), list[str](), list[str](), Event()
    left = iter([1 << 30, 1 << 20, 1 << 20, 20 << 20, 40 << 20])

    def free(_: object) -> SimpleNamespace:
        if (n_bytes := next(left, None)) is None:
            stop.set()
        return SimpleNamespace(free=1 << 30 if n_bytes is None else n_bytes)

    monkeypatch.setattr(supervisor_module.shutil, "disk_usage", free)
    monkeypatch.setattr(Child, "tend", lambda child: bool(did.append(f"{child.name} runs")))
    monkeypatch.setattr(Child, "stop", lambda child: did.append(f"{child.name} stops"))

    Supervisor(settings, tmp_path / "fleet.toml", say=told.append).run(stop, until_trained=False)

    runs, stops = (
        [f"{name} {what}" for name in names]
        for what, names in (
            ("runs", ("superlink", "proxy", "board")),
            ("stops", ("proxy", "board", "superlink")),
        )
    )
    assert did == [*runs, *stops, *runs, *runs, *stops]
    assert [line.partition(":")[0] for line in told] == ["disk full", "the disk has room again"]


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A disk of 64 MiB, where this account may mount one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
def test_a_server_on_a_full_disk_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", protocol="trusted")
    with small_disk(fleet.state.path) as disk:
        fleet.start("server")
        try:
            fleet.wait(lambda: "board started" in fleet.log("server"), "start")
            with suppress(OSError), (disk / "filling").open("wb", buffering=0) as filling:
                while True:
                    filling.write(bytes(1 << 12))
            fleet.wait(lambda: "disk full" in fleet.log("server"), "word of the disk")
            assert "started again" not in fleet.log("server")
            (disk / "filling").unlink()
            fleet.wait(lambda: "superlink started again" in fleet.log("server"), "server that goes on")
        finally:
            fleet.end_all(list(fleet._processes), signal.SIGTERM)

    assert fleet.log("server").count("disk full") == 1
    assert "the disk has room again" in fleet.log("server")


def test_a_server_that_waits_for_devices_says_so_once_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, told, stop = a_fleet(tmp_path), list[tuple[float, str]](), Event()

    def say(sentence: str) -> None:
        told.append((time.monotonic(), sentence))
        if len(told) == 3:
            stop.set()

    monkeypatch.setattr(Child, "tend", lambda *_: False)
    monkeypatch.setattr(supervisor_module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(supervisor_module, "_SILENT_SECONDS", 0.3)
    silent, began = Timer(60.0, stop.set), time.monotonic()
    silent.start()

    Supervisor(settings, tmp_path / "fleet.toml", say=say).run(stop, until_trained=False)

    silent.cancel()

    waits = "0 of 4 devices are online and the quorum is 3: no round begins"
    assert [sentence for _, sentence in told] == [waits] * 3
    assert min(after - before for before, after in pairwise([began, *(at for at, _ in told)])) >= 0.3


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
