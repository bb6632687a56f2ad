"""The supervisor waits for what an earlier server left behind, leaves nothing itself, and tells how rounds fare."""

import json
import shutil
import signal
from pathlib import Path
from threading import Event

import pytest

from fedboard.server.fleet.plan.preparing import prepare
from fedboard.server.fleet.processes.children import Child
from fedboard.server.fleet.processes.supervisor import Supervisor
from fedboard.server.fleet.processes.work_locks import at_work, is_at_work
from tests.server.fleet.deployed import Fleet
from tests.server.fleet.opened import a_fleet

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")]


def test_a_training_begins_when_the_serverapp_of_before_has_ended_and_ends_when_its_server_is_killed(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path)
    prepare(fleet.settings)
    with at_work(fleet.state.run):
        fleet.start("server")
        fleet.wait(lambda: "waits until the ServerApp of an earlier run" in fleet.log("server"), "waiting")
    fleet.wait(lambda: is_at_work(fleet.state.run), "training that has begun")

    fleet.end("server", signal.SIGKILL)

    fleet.wait(lambda: not is_at_work(fleet.state.run), "end of the ServerApp", 10)
    assert "interrupted" not in fleet.log("server")


def test_a_round_is_told_with_the_codes_of_what_was_not_taken(tmp_path: Path) -> None:
    fleet, told, stop = Fleet(tmp_path), list[str](), Event()
    line = {"round": 0, "answers": 2, "refused": {"unreachable": 2, "over-limit": 1}}
    line |= {"seconds": 1.5, "epsilon_spent": 0.25}

    def say(sentence: str) -> None:
        told.append(sentence)
        if sentence.startswith("round"):
            stop.set()
        elif sentence.startswith("superlink started"):
            (fleet.state.run / "rounds.jsonl").write_text(json.dumps(line) + "\n")

    prepare(fleet.settings)
    Supervisor(fleet.settings, fleet.folder / "fleet.toml", say=say).run(stop, until_trained=False)

    assert told[-1] == "round 0: 2 answers, 1 over-limit, 2 unreachable, 1.50 s, epsilon so far 0.25"


def test_a_stop_that_comes_while_an_event_s_lock_is_not_held_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for an event releases its lock; an interrupt before it is taken again must not release it twice."""
    settings, stop = a_fleet(tmp_path), Event()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stop._cond, "_acquire_restore", interrupted)
    monkeypatch.setattr(Child, "tend", lambda *_: False)
    supervisor = Supervisor(settings, tmp_path / "fleet.toml", say=lambda _: None)
    looks: list[int] = []
    monkeypatch.setattr(supervisor, "_look", lambda: stop.set() if looks else looks.append(1))

    supervisor.run(stop, until_trained=False)

    assert stop.is_set()
