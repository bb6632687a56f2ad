"""The round loop: on after a failure and a crash, one query after another, held and stopped where it waits."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.fleet import round_loop
from fedboard.server.fleet.job import Job, prepare
from fedboard.server.fleet.mailbox import Mailbox
from fedboard.server.fleet.queries import Standing, account_path, queries_of
from fedboard.server.fleet.round_loop import DiskFullError, HaltedError, RoundLoop, Tries
from fedboard.server.fleet.rounds.over_nodes import BEHIND
from fedboard.server.fleet.state_folder import close
from tests.commands import until
from tests.server.fleet.asked_fleet import MEAN, Asked, asked_fleet
from tests.server.fleet.deployed import Fleet

SECONDS = 30.0


def without_resting(wait: Callable[[RoundLoop, float], bool]) -> Callable[[RoundLoop, float], bool]:
    """The waits are a hundredth of what they are."""
    return lambda loop, seconds: wait(loop, seconds / 100)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoundLoop, "_wait", without_resting(RoundLoop._wait))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    found = Fleet(tmp_path)
    prepare(found.settings)
    return found


@contextmanager
def looping(fleet: Fleet, told: list[str]) -> Iterator[RoundLoop]:
    """The loop, which is stopped afterwards."""
    loop = RoundLoop(fleet.settings, Mailbox(), say=told.append)
    loop.start()
    try:
        yield loop
    finally:
        loop.stop(seconds=SECONDS)


def jobs_by(monkeypatch: pytest.MonkeyPatch, run: Callable[[Any, Job], object]) -> None:
    monkeypatch.setattr(round_loop, "run_job", lambda nodes, job, **_: run(nodes, job))


def answering(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, *, nodes: tuple[str, ...] = ("a", "b", "c", "d")
) -> None:
    """Queries are answered by devices in this process."""

    def run(_: object, job: Job) -> None:
        (put,) = [one for one in queries_of(asked.fleet.state) if str(one.state.run) == job.folder]
        asked.run(put, nodes=nodes, seconds=0.1)

    jobs_by(monkeypatch, run)


def test_a_training_that_fails_is_tried_again_and_its_failures_in_a_row_are_counted(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, begin, waits = list[str](), threading.Event(), list[int]()
    errors = [OSError(28, "No space left on device"), InputError("no such file"), ValueError("odd")]

    def run(*_: object) -> None:
        assert begin.wait(SECONDS)
        waits.append(loop.training.failures)
        if errors:
            raise errors.pop(0)

    jobs_by(monkeypatch, run)
    with looping(fleet, told) as loop:
        begin.set()
        until(lambda: loop.complete)
        assert loop.training.failures == 3

    assert waits == [0, 1, 2, 3]
    assert [Tries(number).wait for number in (1, 2, 3, 4, 9, 10**6)] == [1.0, 2.0, 4.0, 8.0, 60.0, 60.0]
    assert [one.partition(";")[0] for one in told[:3]] == [
        "the training was interrupted: [Errno 28] No space left on device",
        "the training was interrupted: no such file",
        "the training was interrupted: ValueError: odd",
    ]
    assert told[3].startswith("the training is complete: ")
    assert loop.fatal is None


def test_a_server_that_is_behind_its_devices_ends(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise PrivacyError(f"{BEHIND}: round 4")

    jobs_by(monkeypatch, run)
    with looping(fleet, []) as loop:
        until(lambda: loop.fatal)
        assert isinstance(loop.fatal, PrivacyError)


def test_a_training_that_is_closed_asks_nobody(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    close(fleet.state.run, "its backup was restored")
    jobs_by(monkeypatch, lambda *_: pytest.fail("nobody is asked"))
    told = list[str]()
    with looping(fleet, told) as loop:
        assert loop.complete
    assert told == ["this training is closed: its backup was restored; its boards are published as before"]
    assert loop.fatal is None


@pytest.mark.parametrize("how", ["no device is there", "an answer is waited for"])
def test_it_is_stopped_wherever_it_waits(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    entered = threading.Semaphore(0)

    def run(nodes: Any, _: Job) -> None:
        entered.release()
        while True:
            if how == "no device is there":
                assert nodes.present() == {}
                time.sleep(0.01)
            else:
                nodes.replies(wait=SECONDS)

    jobs_by(monkeypatch, run)
    with looping(fleet, told := list[str]()) as loop:
        assert entered.acquire(timeout=SECONDS)
        time.sleep(0.1)
        began = time.monotonic()
    assert time.monotonic() - began < 5.0
    assert not loop._thread.is_alive()
    assert (told, loop.training.failures, loop.fatal) == ([], 0, None), "nothing was interrupted by itself"
    assert not loop.complete


def test_on_a_full_disk_no_round_goes_on_until_there_is_room(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a round too: it is asked again, and not lost for want of a place for its board."""
    free, answers = [1 << 30], list[int]()

    def run(nodes: Any, _: Job) -> None:
        nodes.ask({}, largest=9, seconds=60.0)
        free[0] = 1 << 20 if not answers else 1 << 30
        answers.append(len(answers))
        nodes.replies(wait=0.0)

    monkeypatch.setattr(round_loop.shutil, "disk_usage", lambda _: SimpleNamespace(free=free[0]))
    monkeypatch.setattr(round_loop, "_LOOK_SECONDS", 0.01)
    jobs_by(monkeypatch, run)
    with looping(fleet, told := list[str]()) as loop:
        until(lambda: loop.full is not None)
        free[0] = 20 << 20
        time.sleep(0.1)
        assert answers == [0]
        free[0] = 1 << 30
        until(lambda: loop.complete)
        assert (loop.full, loop.training.failures) == (None, 0), "nothing has failed"

    assert answers == [0, 1]
    assert told[0].startswith("the training waits: disk full: ")
    assert told[0].endswith(" has 1 MB left; no round goes on before it has 34 MB")
    assert told[1:-1] == ["the disk has room again: the training goes on"]


def test_a_loop_that_is_killed_goes_on_with_the_query_and_then_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = asked_fleet(tmp_path), list[str]()
    first, second = asked.put(MEAN), asked.put(MEAN)

    def killed(*_: object) -> None:
        raise HaltedError

    jobs_by(monkeypatch, killed)
    with looping(asked.fleet, told) as loop:
        until(lambda: not loop._thread.is_alive())
    assert told[0] == "there is no training here: the server waits for queries"
    assert {one.partition(":")[0] for one in told[1:]} == {"question-1"}, "one at a time"
    assert first.standing() is second.standing() is Standing.WAITING

    answering(asked, monkeypatch)
    told.clear()
    with looping(asked.fleet, told):
        until(lambda: told[-1:] == ["question-2 is answered: fedboard query results"])

    assert first.standing() is second.standing() is Standing.ANSWERED
    begun = [sentence.partition(":")[0] for sentence in told if ": mean of ratings" in sentence]
    assert begun == ["question-1", "question-2"]


def test_a_query_that_too_few_answer_is_given_up_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = asked_fleet(tmp_path), list[str]()
    put = asked.put(MEAN)

    answering(asked, monkeypatch, nodes=("a", "b"))
    with looping(asked.fleet, told):
        until(lambda: put.standing() is Standing.CLOSED and "is given up" in told[-1])

    assert sum("was interrupted" in one for one in told) == 3
    assert "quorum is 3" in str(put.reason)
    assert told[-1].startswith("question-1 is given up: 2 nodes")
    with Population.open(account_path(asked.fleet.state), read_only=True) as account:
        assert account.cost(reserved=True) == 0.0
    later = asked.put(MEAN)
    answering(asked, monkeypatch)
    with looping(asked.fleet, told):
        until(lambda: later.standing() is Standing.ANSWERED)


def test_no_query_is_given_up_for_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, told, tries = asked_fleet(tmp_path), list[str](), list[int]()
    put = asked.put(MEAN)

    def run(_: object, job: Job) -> None:
        tries.append(len(tries))
        if len(tries) <= 5:
            raise DiskFullError("disk full")
        asked.run(put, nodes=("a", "b", "c", "d"), seconds=0.1)

    jobs_by(monkeypatch, run)
    with looping(asked.fleet, told):
        until(lambda: put.standing() is not Standing.WAITING)

    assert put.standing() is Standing.ANSWERED
    assert told.count("the disk has room again: question-1 goes on") == 5


def test_a_query_whose_files_are_damaged_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = asked_fleet(tmp_path), list[str]()
    asked.put(MEAN).state.first_board.write_bytes(b"no board")
    later = asked.put(MEAN)

    answering(asked, monkeypatch)
    with looping(asked.fleet, told):
        until(lambda: later.standing() is Standing.ANSWERED)

    assert told[1].startswith("question-1 is left out: ")
