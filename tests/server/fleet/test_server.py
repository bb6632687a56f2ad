"""One server in this process: what it says, what ends it, and that a full disk or a failing file does not."""

import errno
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.board import Board
from fedboard.common.boards.witnesses import cosigned
from fedboard.common.errors import FedboardError, InputError, StorageError
from fedboard.common.files import is_locked
from fedboard.server.fleet import round_loop, server
from fedboard.server.fleet.job import prepare
from fedboard.server.fleet.mailbox import Message
from fedboard.server.fleet.rounds.asking import Roster
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.server import FleetServer, TrainingFailedError
from fedboard.server.fleet.settings import FleetSettings, RoundsSection
from fedboard.server.fleet.state_folder import StateFolder
from fedboard.server.fleet.status import status_of
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.run_spec import RoundPace
from tests.commands import until
from tests.ports import free_ports
from tests.server.fleet.deployed import Fleet
from tests.server.fleet.made import a_fleet

SECONDS = 30.0


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LOOK_SECONDS", 0.01)


@pytest.fixture
def settings(tmp_path: Path) -> FleetSettings:
    port, ops = free_ports(2)
    found = a_fleet(tmp_path, network={"address": f"127.0.0.1:{port}", "ops": f"127.0.0.1:{ops}"})
    prepare(found)
    return found


class Running:
    """A server in a thread, what it has told and what has ended it."""

    def __init__(self, settings: FleetSettings, **how: Any) -> None:
        self.told = list[tuple[float, str]]()
        self.ended: BaseException | None = None
        self.server = FleetServer(settings, say=lambda line: self.told.append((time.monotonic(), line)))
        self._thread = threading.Thread(target=self._run, kwargs=how)

    def _run(self, **how: Any) -> None:
        try:
            self.server.run(**how)
        except FedboardError as error:
            self.ended = error

    @property
    def lines(self) -> list[str]:
        return [line for _, line in self.told]

    def until(self, word: str, *, times: int = 1) -> None:
        deadline = time.monotonic() + SECONDS
        while sum(word in line for line in self.lines) < times:
            assert time.monotonic() < deadline, self.lines
            assert self._thread.is_alive(), (self.lines, self.ended)
            time.sleep(0.005)

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self.join()

    def join(self) -> None:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def test_a_server_that_waits_for_devices_says_so_once_a_while_and_stops_at_once(
    settings: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SILENT_SECONDS", 0.3)
    waits = "0 of 0 devices are online and the quorum is 2: no round begins"
    with Running(settings) as running:
        running.until(waits, times=3)
        assert is_locked(StateFolder.of(settings).lock)
        began = time.monotonic()
    assert time.monotonic() - began < 5.0, "stopped while the round loop waits for devices"

    told = [at for at, line in running.told if line != waits][-1:]
    told += [at for at, line in running.told if line == waits]
    assert min(after - before for before, after in pairwise(told)) >= 0.3
    assert not is_locked(StateFolder.of(settings).lock)
    assert running.ended is None


def test_a_round_is_told_with_the_codes_of_what_was_not_taken(
    settings: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {"round": 0, "answers": 2, "refused": {"unreachable": 2, "over-limit": 1}}
    line |= {"seconds": 1.5, "epsilon_spent": 0.25}

    def run(*_: object, **__: object) -> None:
        (StateFolder.of(settings).run / "rounds.jsonl").write_text(json.dumps(line) + "\n")

    monkeypatch.setattr(round_loop, "run_job", run)
    with Running(settings, until_trained=True) as running:
        running.join()

    assert running.lines[1:] == [
        "round 0: 2 answers, 1 over-limit, 2 unreachable, 1.50 s, epsilon so far 0.25",
        "the training is complete: 1 rounds made, none lost, epsilon spent 0.25",
    ]


def test_until_trained_a_training_that_fails_again_and_again_ends_the_server(
    settings: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise InputError("no such file")

    monkeypatch.setattr(round_loop, "run_job", run)
    monkeypatch.setattr(round_loop.RoundLoop, "_wait", lambda loop, _: not loop._stopped)
    with Running(settings, until_trained=True) as running:
        running.join()

    assert isinstance(running.ended, TrainingFailedError)
    assert str(running.ended) == "the training fails: no such file"


class BegunError(Exception):
    """Board 0 is there, and somebody would be asked now."""


@pytest.fixture
def witnessed(tmp_path: Path) -> tuple[FleetSettings, Ed25519PrivateKey]:
    """A fleet whose boards one witness cosigns, whose key is at hand."""
    key, (port, ops) = Ed25519PrivateKey.generate(), free_ports(2)
    found = a_fleet(
        tmp_path,
        network={"address": f"127.0.0.1:{port}", "ops": f"127.0.0.1:{ops}"},
        boards={"witnesses": [key.public_key().public_bytes_raw().hex()]},
    )
    prepare(found)
    return found, key


def cosign(settings: FleetSettings, key: Ed25519PrivateKey) -> None:
    mirror = Mirror(StateFolder.of(settings).mirror)
    (link,) = mirror.pending()
    assert mirror.cosign(link.digest, cosigned(key, link.signed.content.encode()))


def test_nobody_is_asked_before_readers_have_the_board_of_the_round(
    witnessed: tuple[FleetSettings, Ed25519PrivateKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, key = witnessed
    asked, mirror = threading.Event(), Mirror(StateFolder.of(settings).mirror)
    monkeypatch.setattr(Roster, "when_enough", lambda _: asked.set() or {})
    with Running(settings) as running:
        until(mirror.pending)
        assert not asked.wait(0.5)
        cosign(settings, key)
        assert asked.wait(SECONDS)
    assert not any("interrupted" in line for line in running.lines)


def test_a_round_whose_board_is_not_published_in_time_is_tried_again_and_nobody_is_asked(
    witnessed: tuple[FleetSettings, Ed25519PrivateKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RoundPace, "longest_seconds", 0.5)
    monkeypatch.setattr(Roster, "when_enough", lambda _: pytest.fail("somebody is asked"))
    with Running(witnessed[0]) as running:
        running.until("the training was interrupted: ", times=2)
        (line, *_) = (line for line in running.lines if "interrupted" in line)
    assert (
        "board 0 is not published yet: version 0 of the board, signed, cosigned by 0 of 1; missing: " in line
    )
    assert line.endswith("; nobody was asked, and nothing was spent; it is tried again in 1 s")


@pytest.mark.parametrize("comes", [True, False])
def test_until_trained_it_is_waited_until_readers_have_the_last_board_or_for_so_long(
    witnessed: tuple[FleetSettings, Ed25519PrivateKey], monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    settings, key = witnessed

    def run(nodes: Any, job: Any, **_: object) -> None:
        def begun(_: object) -> None:
            raise BegunError

        with suppress(BegunError):
            run_job(nodes, job, shown=begun)

    monkeypatch.setattr(round_loop, "run_job", run)
    monkeypatch.setattr(RoundsSection, "deadline_seconds", SECONDS if comes else 0.3)
    mirror = Mirror(StateFolder.of(settings).mirror)
    with Running(settings, until_trained=True) as running:
        running.until("the training is complete")
        until(mirror.pending)
        time.sleep(0.1)
        if comes:
            assert running._thread.is_alive()
            cosign(settings, key)
        running.join()

    assert running.ended is None
    assert [link.manifest.version for link in mirror.published()] == ([0] if comes else [])
    late = [line for line in running.lines if "board 0 is not published yet" in line]
    assert len(late) == (not comes)
    assert all(line.endswith("; start the server again for that") for line in late)


def test_status_says_that_a_round_is_under_way_while_it_is_even_between_questions(
    settings: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that is busy with its answer is silent, and counts as away: that is no reason to look."""
    asked, closed, ended = threading.Event(), threading.Event(), threading.Event()

    def run(nodes: Any, *_: object, shown: Callable[[Any], None], **__: object) -> None:
        nodes.ask({"ann": Message("round", b"?")}, largest=9, seconds=60.0)
        assert asked.wait(SECONDS)
        nodes.end()  # all is in, and the sums are being closed
        assert closed.wait(SECONDS)
        shown(Board.load(StateFolder.of(settings).first_board))
        assert ended.wait(SECONDS)

    def stands() -> str:
        found = status_of(settings)
        return f"{found.sentence} {dict(found.rows()).get('answers')} {found.problems()}"

    monkeypatch.setattr(round_loop, "run_job", run)
    with Running(settings):
        until(lambda: "round 0 is under way 0 of 1 asked" in stands())
        asked.set()
        until(lambda: "round 0 is under way nobody is asked just now" in stands())
        assert "no round begins" not in stands()
        closed.set()  # and the next one waits for devices
        until(lambda: "no round begins None" in stands())
        ended.set()


def test_a_second_server_on_the_same_state_folder_is_refused(settings: FleetSettings) -> None:
    with Running(settings) as running:
        running.until("devices and readers come to")
        with pytest.raises(InputError, match="another fedboard server works there; stop it first"):
            FleetServer(settings, say=print).run()


@pytest.mark.parametrize("key", ["network.address", "network.ops"])
def test_a_port_in_use_is_said_and_nothing_is_left_running(settings: FleetSettings, key: str) -> None:
    place = getattr(settings.network, key.partition(".")[2])
    with (
        socket.create_server(("127.0.0.1", int(place.rpartition(":")[2]))),
        pytest.raises(InputError, match=f"{re.escape(place)}|address"),
    ):
        FleetServer(settings, say=print).run()
    assert not is_locked(StateFolder.of(settings).lock)
    assert not [thread for thread in threading.enumerate() if thread.name in ("rounds", "board-publisher")]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        sqlite3.OperationalError("database or disk is full"),
        StorageError("members.sqlite: full"),
    ],
)
def test_a_server_that_cannot_write_says_so_once_and_goes_on(
    settings: FleetSettings, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries = list[int]()

    def failing(*_: object, **__: object) -> None:
        tries.append(1)
        if len(tries) < 4:
            raise error

    with Running(settings) as running:
        monkeypatch.setattr(running.server, "_tell_status", failing)
        running.until("tried again")
        while len(tries) < 6:
            time.sleep(0.005)
        assert running.server._problems() == []

    assert [str(error) in line for line in running.lines if "tried again" in line] == [True]


def test_a_server_whose_boards_cannot_be_signed_at_the_start_for_want_of_room_tries_it_again(
    settings: FleetSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, sign = [True], FleetServer._sign_boards

    def signing(itself: FleetServer) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        sign(itself)

    monkeypatch.setattr(FleetServer, "_sign_boards", signing)
    with Running(settings) as running:
        running.until("No space left on device")
        assert running.server._problems() == ["[Errno 28] No space left on device"]
        full[0] = False
        until(running.server._rounds._thread.is_alive)
        until(lambda: running.server._problems() == [])


def test_a_full_disk_is_a_problem_at_once(settings: FleetSettings) -> None:
    found = FleetServer(settings, say=print)
    found._rounds.full = "disk full"
    assert found._problems() == ["disk full"]


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A disk of 64 MiB, where this account may mount one."""
    place.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
def test_a_server_on_a_full_disk_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet")
    with small_disk(fleet.state.path) as disk:
        fleet.start("server")
        try:
            fleet.wait(lambda: "devices and readers come to" in fleet.log("server"), "start")
            with suppress(OSError), (disk / "filling").open("wb", buffering=0) as filling:
                while True:
                    filling.write(bytes(1 << 12))
            fleet.wait(lambda: "disk full" in fleet.log("server"), "word of the disk")
            (disk / "filling").unlink()
            fleet.wait((fleet.state.mirror / "latest.json").exists, "server that goes on")
        finally:
            assert fleet.end_all(list(fleet._processes), signal.SIGTERM) == [0]
