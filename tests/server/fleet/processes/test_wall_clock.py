"""A clock that was put back: the SuperLink's database, which is of the future then, is begun anew."""

import json
import sqlite3
import time
from pathlib import Path
from threading import Event

import pytest

from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.children import Child
from fedboard.server.fleet.processes.supervisor import Supervisor
from fedboard.server.fleet.processes.wall_clock import WallClock, written_ahead
from tests.server.fleet.opened import a_fleet


def test_a_clock_that_goes_on_jumps_ahead_or_is_corrected_a_little_was_not_put_back() -> None:
    wall, steady = [1000.0], [5.0]
    clock = WallClock(clock=lambda: wall[0], steady=lambda: steady[0])
    for wall[0], steady[0] in ((1010.0, 15.0), (90_000.0, 16.0), (89_995.0, 21.0)):
        assert clock.put_back() == 0.0

    wall[0] -= 86_400.0

    assert clock.put_back() == 86_400.0
    assert clock.put_back() == 0.0, "once"


@pytest.mark.parametrize("content", ["", "{}", '{"written": "soon"}', "[1]", '{"written": 1000}'])
def test_what_the_door_did_not_write_ahead_says_nothing(tmp_path: Path, content: str) -> None:
    door = tmp_path / "door.json"
    assert written_ahead(door) == 0.0
    door.write_text(content)
    assert written_ahead(door, clock=lambda: 1000.0) == 0.0


def a_database(state: StateFolder) -> None:
    with sqlite3.connect(state.database) as connection:
        connection.execute("CREATE TABLE node (public_key BLOB, status TEXT)")
    connection.close()


def told_until_stopped(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, put_back: bool) -> None:
    stop, looks, look, now = Event(), list[int](), supervisor._look, time.time

    def looked() -> None:
        if put_back and not looks:
            monkeypatch.setattr(supervisor._clock, "_clock", lambda: now() - 3 * 86_400.0)
        looks.append(1)
        look()
        if len(looks) > 1:
            stop.set()

    monkeypatch.setattr(Child, "tend", lambda *_: False)
    monkeypatch.setattr(supervisor, "_look", looked)
    supervisor.run(stop, until_trained=False)


@pytest.mark.parametrize("running", [True, False])
def test_devices_need_not_wait_for_the_day_that_the_clock_was_ahead_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    settings, told = a_fleet(tmp_path), list[str]()
    state = StateFolder.of(settings)
    a_database(state)
    written = time.time() + (0.0 if running else 3 * 86_400.0)
    state.door.write_text(json.dumps({"written": written, "devices": {}}))
    supervisor = Supervisor(settings, tmp_path / "fleet.toml", say=told.append)

    told_until_stopped(supervisor, monkeypatch, put_back=running)

    assert not state.database.exists()
    assert [line.partition(":")[0] for line in told] == ["the clock of this machine was put back by 259200 s"]


def test_a_clock_that_is_right_keeps_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, told = a_fleet(tmp_path), list[str]()
    state = StateFolder.of(settings)
    a_database(state)
    state.door.write_text(json.dumps({"written": time.time(), "devices": {}}))

    told_until_stopped(
        Supervisor(settings, tmp_path / "fleet.toml", say=told.append),
        monkeypatch,
        put_back=False,
    )

    assert state.database.exists()
    assert told == []
