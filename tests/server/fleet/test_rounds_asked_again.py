"""A busy fleet: nobody gives before a quorum is there, a round that lacks it is asked again, waiting has bounds."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.question import Question, refusal
from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.state_folder import RoundLog
from fedboard.server.publication import BoardStore
from tests.server.fleet.local_fleet import N_NODES, TASK, Fleet, Weather, digests, events

pytestmark = pytest.mark.slow

N_ROUNDS = 3
QUORUM = 3
SHORT: dict[str, Any] = {"deadline_seconds": 0.1, "quorum": QUORUM}
PLAN = [[request.name for request in requests] for requests in TASK.plan()]


def held_until_asked_again(nodes: Any, first_of_round: Counter[int], *numbers: int) -> Any:
    """The replies of these nodes to what a round asks first never come; those to what it asks later do."""
    return lambda number: number in numbers and nodes.asked[number] <= first_of_round[number]


def test_a_round_below_the_quorum_is_asked_again_and_made(tmp_path: Path) -> None:
    """Two of four stay silent until they are asked once more: before, that was a lost round with its budget."""
    fleet = Fleet(tmp_path / "run", settings=SHORT)
    nodes, finished = fleet.nodes(), 0
    first = Counter(dict.fromkeys((2, 3), 1))
    nodes.weather.holds = held_until_asked_again(nodes, first, 2, 3)

    def on_round(_: object) -> None:
        nonlocal finished
        finished += 1
        first.update({number: nodes.asked[number] - first[number] + 1 for number in (2, 3)})

    run_job(nodes, fleet.job, on_round=on_round)

    calm = Fleet(tmp_path / "calm")
    calm.run()
    lines = _lines(tmp_path / "run")
    assert [line["lost"] for line in lines] == [False] * N_ROUNDS
    assert [line["attempts"] for line in lines] == [2] * N_ROUNDS
    assert finished == N_ROUNDS
    assert digests(tmp_path / "run") == digests(
        tmp_path / "calm"
    )  # each counted once, with the bytes of the first time


def test_what_has_come_stays_when_a_round_is_asked_again(tmp_path: Path) -> None:
    """The first node answers the first time alone, two others the second time alone: together they are a quorum."""
    fleet = Fleet(tmp_path / "run", settings=SHORT)
    nodes = fleet.nodes()
    gone = {1: 1, 2: 1, 3: 99}  # how many messages of each node are lost before its reply comes
    nodes.weather.holds = lambda number: nodes.asked[number] <= gone.get(number, 0)
    nodes.weather.present = lambda: range(N_NODES)

    runtime_board = run_job(nodes, fleet.job)

    lines = _lines(tmp_path / "run")
    assert lines[0]["attempts"] == 2
    assert lines[0]["answers"] == QUORUM
    assert nodes.asked[0] == N_ROUNDS  # who has answered is not asked again
    assert runtime_board.version == N_ROUNDS


def test_a_round_is_given_up_after_its_attempts_and_only_then(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fleet = Fleet(folder, settings={**SHORT, "attempts": 2})
    nodes = fleet.nodes()
    nodes.weather.holds = lambda number: (
        number > 1 and bool(len(BoardStore(folder / "boards").versions()) == 2)
    )

    run_job(nodes, fleet.job)

    lines = _lines(folder)
    assert [line["lost"] for line in lines] == [False, True, False]
    assert [line["attempts"] for line in lines] == [1, 2, 1]
    assert [line["rounds_planned"] for line in lines] == [N_ROUNDS] * N_ROUNDS
    assert [event["name"] for event in events(folder)] == [name for names in PLAN for name in names]


def test_asking_again_stops_where_it_cannot_help(tmp_path: Path) -> None:
    """Two of four refuse for good, so no quorum of three can come, however long one waits for the last one."""
    tampers = {n: lambda question, honest: refusal(Refusal.OVER_LIMIT) for n in (1, 2)}
    fleet = Fleet(
        tmp_path / "run",
        tampers=tampers,
        weather=Weather(holds=lambda n: n == 3),
        settings={**SHORT, "attempts": 50},
    )

    with pytest.raises(TooFewAnswersError, match="asked once"):
        fleet.run()


@pytest.mark.parametrize("there", [(2, 3), ()])
def test_nobody_gives_anything_before_a_quorum_is_there(tmp_path: Path, there: tuple[int, ...]) -> None:
    folder = tmp_path / "run"
    fleet = Fleet(folder, weather=Weather(present=lambda: there), settings=SHORT)
    nodes = fleet.nodes()

    with pytest.raises(TooFewAnswersError, match="nobody was asked, and nothing was spent") as failed:
        run_job(nodes, fleet.job)

    assert not failed.value.asked
    assert nodes.asked == [0] * N_NODES
    assert events(folder) == []


def test_a_later_round_without_a_quorum_is_not_lost_but_waits(tmp_path: Path) -> None:
    """Before, it was booked and skipped. Now the run ends there, and goes on when it is run again."""
    folder = tmp_path / "run"
    fleet = Fleet(folder, settings={**SHORT, "grace_seconds": 0.001})
    nodes = fleet.nodes()
    nodes.weather.present = lambda: range(N_NODES if len(BoardStore(folder / "boards").versions()) < 2 else 2)

    with pytest.raises(TooFewAnswersError, match="2 nodes are there and the quorum is 3"):
        run_job(nodes, fleet.job)

    assert [event["name"] for event in events(folder)] == PLAN[0]
    assert nodes.asked == [1] * N_NODES
    outcome = Fleet(folder, settings=SHORT).run()
    assert [line["lost"] for line in outcome.rounds] == [False] * N_ROUNDS
    assert [event["name"] for event in events(folder)] == [name for names in PLAN for name in names]


def test_devices_answer_the_second_time_what_they_answered_the_first(tmp_path: Path) -> None:
    """The question is the same but for nothing: same run, round, board and reply key, since it is one gathering."""
    asked: list[bytes] = []

    def listening(question: Question, honest: bytes) -> bytes:
        asked.append(question.content)
        return honest

    fleet = Fleet(tmp_path / "run", tampers={3: listening}, settings=SHORT)
    nodes = fleet.nodes()
    nodes.weather.holds = lambda number: number > 1 and nodes.asked[number] <= 1
    run_job(nodes, fleet.job)

    assert len(asked) == N_ROUNDS + 1
    assert len(set(asked)) == N_ROUNDS


def _lines(folder: Path) -> list[dict[str, Any]]:
    return RoundLog(folder / "rounds.jsonl").lines()
