"""The queue of questions: one after another, on after a crash of the server, given up when it helps no more."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from fedboard.common.errors import FedboardError
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.fleet.processes import training_run
from fedboard.server.fleet.processes.control import Control, RunState
from fedboard.server.fleet.processes.question_runs import QuestionRuns
from fedboard.server.fleet.questions.account import account_path
from fedboard.server.fleet.questions.places import Standing, questions_of
from tests.server.fleet.questions import MEAN, Asked, asked_fleet


@dataclass
class RunsHere:
    """In the place of a SuperLink: a run is over when it is handed in, unless the server is killed first."""

    asked: Asked
    killed: bool = False
    nodes: tuple[str, ...] = ("a", "b", "c", "d")
    ended: list[RunState] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)

    def start_run(self, job: Path) -> int:
        (put,) = [one for one in questions_of(self.asked.fleet.state) if one.state.job == job]
        number, details = len(self.ended), ""
        if not self.killed:
            try:
                self.asked.run(put, nodes=self.nodes, seconds=0.1)
            except FedboardError as error:
                details = str(error)
        self.ended.append(
            RunState(
                run_id=number,
                waiting=False,
                finished=not self.killed,
                completed=not self.killed and not details,
                details=details,
            )
        )
        return number

    def runs(self) -> list[RunState]:
        return list(reversed(self.ended))

    def stop_run(self, run_id: int) -> None:
        self.stopped.append(run_id)


def watching(control: RunsHere, told: list[str], *, looks: int = 30) -> QuestionRuns:
    """A server's part for questions, after so many looks."""
    found = QuestionRuns(cast(Control, control), control.asked.fleet.state, say=told.append)
    found.begin()
    for _ in range(looks):
        assert found.watch()
    return found


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_run, "_FIRST_WAIT", 0.0)


def test_a_server_that_was_killed_goes_on_with_the_question_and_then_with_the_next(tmp_path: Path) -> None:
    asked, told = asked_fleet(tmp_path), list[str]()
    first, second = asked.put(MEAN), asked.put(MEAN)
    before = RunsHere(asked, killed=True)
    watching(before, told)
    assert len(before.ended) == 1, "one at a time"
    assert first.standing() is second.standing() is Standing.WAITING

    watching(RunsHere(asked), told)

    assert first.standing() is second.standing() is Standing.ANSWERED
    begun = [sentence.partition(":")[0] for sentence in told if ": mean of ratings" in sentence]
    assert begun == ["question-1", "question-1", "question-2"]
    assert told[-1] == "question-2 is answered: fedboard ask answers"
    watching(again := RunsHere(asked), told)
    assert again.ended == []


def test_a_question_that_too_few_answer_is_given_up_and_the_next_one_comes(tmp_path: Path) -> None:
    asked, told = asked_fleet(tmp_path), list[str]()
    put = asked.put(MEAN)

    watching(few := RunsHere(asked, nodes=("a", "b")), told)

    assert len(few.ended) == 3
    assert put.standing() is Standing.CLOSED
    assert "quorum is 3" in str(put.reason)
    assert told[-1].startswith("question-1 is given up: 2 nodes")
    with Population.open(account_path(asked.fleet.state), read_only=True) as account:
        assert account.cost(reserved=True) == 0.0
    later: Any = asked.put(MEAN)
    watching(RunsHere(asked), told)
    assert later.standing() is Standing.ANSWERED


def test_a_question_whose_files_are_damaged_is_left_out_and_told(tmp_path: Path) -> None:
    asked, told = asked_fleet(tmp_path), list[str]()
    asked.put(MEAN).state.first_board.write_bytes(b"no board")

    watching(RunsHere(asked), told)

    assert len(told) == 1
    assert told[0].startswith("question-1 is left out: ")
