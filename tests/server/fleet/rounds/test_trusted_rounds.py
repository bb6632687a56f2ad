"""Rounds in the real world: nodes come late, leave, answer twice or too late, and a round still has an end."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.contribution_bounding.participation import PoissonParticipation
from fedboard.common.errors import PrivacyError, TooFewAnswersError
from fedboard.common.messages.question import refusal
from fedboard.common.messages.refusals import Refusal
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.fleet.rounds.trusted_rounds import FleetRuntime
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.state_folder import RoundLog
from fedboard.server.training import FinishedRound
from tests.client.asking import SERVER
from tests.server.fleet.local_fleet import (
    FIRST_BOARD,
    N_NODES,
    TASK,
    Fleet,
    Twice,
    Weather,
    answers_of,
    calm_boards,
    digests,
    events,
)

N_ROUNDS = 3


@pytest.fixture(scope="module")
def of_nodes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[str]]:
    return calm_boards(lambda folder, n: Fleet(folder, n_nodes=n).run(), tmp_path_factory)


def silent(*numbers: int) -> Callable[[int], bool]:
    """These nodes' replies never come."""
    return lambda number: number in numbers


def test_a_round_ends_when_everybody_has_answered(
    tmp_path: Path, of_nodes: Callable[[int], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = list[float]()
    monkeypatch.setattr(time, "sleep", pauses.append)

    outcome = Fleet(tmp_path / "run", settings={"grace_seconds": 60.0}).run()

    assert digests(tmp_path / "run") == of_nodes(N_NODES)
    assert outcome.asked == [N_ROUNDS] * N_NODES
    assert pauses == [], "nobody waited for a look"


@pytest.mark.slow
def test_a_node_that_does_not_answer_is_late_when_the_deadline_has_passed(
    tmp_path: Path, of_nodes: Callable[[int], list[str]]
) -> None:
    settings = {"deadline_seconds": 0.3, "quorum": 3}

    outcome = Fleet(tmp_path / "run", weather=Weather(holds=silent(3)), settings=settings).run()

    assert outcome.refused == {"late": N_ROUNDS}
    assert [line["answers"] for line in outcome.rounds] == [3] * N_ROUNDS
    assert digests(tmp_path / "run") == of_nodes(3)
    assert all(line["seconds"] >= 0.3 for line in outcome.rounds)


def test_why_a_round_fell_below_the_quorum_is_said_by_code(tmp_path: Path) -> None:
    tampers = {n: lambda question, honest: refusal(Refusal.OVER_LIMIT) for n in (1, 2, 3)}

    with pytest.raises(TooFewAnswersError, match=r"not taken: over-limit 3"):
        Fleet(tmp_path / "run", tampers=tampers, settings={"quorum": 2}).run()


def test_a_reply_that_is_delivered_twice_counts_once(
    tmp_path: Path, of_nodes: Callable[[int], list[str]]
) -> None:
    """The port gives each reply once; if it did not, the second would not be taken."""

    fleet = Fleet(tmp_path / "run")
    run_job(Twice(answers_of({}), N_NODES, Weather(), fleet.who_is_admitted()), fleet.job)

    lines = RoundLog(tmp_path / "run" / "rounds.jsonl").lines()
    assert [line["refused"] for line in lines] == [{"duplicate": N_NODES}] * N_ROUNDS
    assert [line["answers"] for line in lines] == [N_NODES] * N_ROUNDS
    assert digests(tmp_path / "run") == of_nodes(N_NODES)


def over_time(*stages: Iterable[int]) -> Callable[[], Iterable[int]]:
    """Which nodes are there, look by look; the last stage stays."""
    looks = iter(stages)
    now: list[Iterable[int]] = [()]

    def present() -> Iterable[int]:
        now[0] = next(looks, now[0])
        return now[0]

    return present


def test_nodes_that_register_late_are_waited_for(
    tmp_path: Path, of_nodes: Callable[[int], list[str]]
) -> None:
    weather = Weather(present=over_time([], [2], [2, 0], [0, 1, 2], range(N_NODES)))

    outcome = Fleet(tmp_path / "run", weather=weather, settings={"grace_seconds": 20.0}).run()

    assert outcome.asked == [N_ROUNDS] * N_NODES
    assert digests(tmp_path / "run") == of_nodes(N_NODES)


def test_a_node_that_joins_in_the_middle_of_a_round_is_asked(
    tmp_path: Path, of_nodes: Callable[[int], list[str]]
) -> None:
    """Three are there when the grace is over; the fourth comes while a held answer keeps the round open."""
    looks = Counter[str]()

    def present() -> Iterable[int]:
        looks["nodes"] += 1
        return range(3) if looks["nodes"] < 25 else range(N_NODES)

    weather = Weather(present=present, holds=lambda number: number == 0 and looks["nodes"] < 26)
    outcome = Fleet(tmp_path / "run", weather=weather, settings={"grace_seconds": 0.01}).run()

    assert outcome.rounds[0]["answers"] == N_NODES
    assert digests(tmp_path / "run") == of_nodes(N_NODES)


def test_a_round_goes_on_without_a_node_that_has_left(
    tmp_path: Path, of_nodes: Callable[[int], list[str]]
) -> None:
    """It was asked and is gone: with the quorum there, nobody waits for the deadline."""
    looks = Counter[str]()

    def present() -> Iterable[int]:
        looks["nodes"] += 1
        return range(N_NODES) if looks["nodes"] < 2 else range(3)

    weather = Weather(present=present, holds=silent(3))
    began = time.monotonic()
    outcome = Fleet(
        tmp_path / "run", weather=weather, settings={"quorum": 3, "deadline_seconds": 500.0}
    ).run()

    assert time.monotonic() - began < 60
    assert [line["answers"] for line in outcome.rounds] == [3] * N_ROUNDS
    assert outcome.refused == {"late": 1}
    assert digests(tmp_path / "run") == of_nodes(3)


def test_more_nodes_than_are_expected_do_not_keep_a_round_open(tmp_path: Path) -> None:
    fleet = Fleet(
        tmp_path / "run", weather=Weather(holds=silent(3)), settings={"expected_nodes": 3, "quorum": 3}
    )

    outcome = fleet.run()

    assert [line["answers"] for line in outcome.rounds] == [3] * N_ROUNDS


def test_who_is_there_and_answers_after_the_expected_number_is_taken(tmp_path: Path) -> None:
    """The fourth of three that are expected is a few looks slower than they."""
    looks = Counter[int]()

    def slow(number: int) -> bool:
        looks[number] += 1
        return number == 3 and looks[number] % 5 != 0

    settings = {"expected_nodes": 3, "quorum": 3, "grace_seconds": 60.0}
    outcome = Fleet(tmp_path / "run", weather=Weather(holds=slow), settings=settings).run()

    assert outcome.refused == {}
    assert [line["answers"] for line in outcome.rounds] == [4] * N_ROUNDS


def test_a_refusal_takes_nobody_else_s_place(tmp_path: Path) -> None:
    """Of four nodes two are expected and two refuse at once: the round waits for the two that answer late."""
    looks = Counter[str]()

    def late(nodes: list[int]) -> None:
        looks["pull"] += 1

    refusing = {n: lambda question, honest: refusal(Refusal.NOT_ALLOWED) for n in (0, 1)}
    weather = Weather(looked=late, holds=lambda number: number > 1 and looks["pull"] < 5)
    settings = {"expected_nodes": 2, "quorum": 2}

    outcome = Fleet(tmp_path / "run", tampers=refusing, weather=weather, settings=settings).run()

    assert [line["answers"] for line in outcome.rounds] == [2] * N_ROUNDS


def test_where_everybody_refuses_nothing_is_booked_and_the_round_is_asked_again_later(tmp_path: Path) -> None:
    refusing, here = dict.fromkeys(range(N_NODES), lambda *_: refusal(Refusal.NOT_ALLOWED)), tmp_path / "run"
    nodes = Fleet(here).nodes()
    with suppress(KeyboardInterrupt):
        run_job(nodes, Fleet(here).job, on_round=_interrupt)
    paid = events(here)

    for _ in range(2):
        with pytest.raises(TooFewAnswersError, match=r"refuse.* nothing is spent .*not-allowed 4") as error:
            Fleet(here, tampers=refusing).run()
        assert not error.value.asked
        assert events(here) == paid
    outcome = Fleet(here).run()

    assert [line["lost"] for line in outcome.rounds] == [False] * N_ROUNDS


def _interrupt(finished: FinishedRound) -> None:
    raise KeyboardInterrupt


def test_a_round_that_states_who_takes_part_is_not_gathered_without_a_draw(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "run")
    runtime = FleetRuntime(
        nodes=fleet.nodes(),
        job=fleet.job,
        key=SERVER,
        run="run-1",
        protocol=Trusted(),
    )
    stated = PoissonParticipation(0.5).event_field("round-0")
    requests = [
        replace(request, release=replace(request.release, participation=stated))
        for request in TASK.requests(FIRST_BOARD)
    ]

    with pytest.raises(PrivacyError):
        runtime.gather(FIRST_BOARD, requests)


def test_the_log_tells_what_a_round_took(tmp_path: Path) -> None:
    outcome = Fleet(tmp_path / "run").run()

    for number, line in enumerate(outcome.rounds):
        assert line["round"] == number
        assert line["answers"] == N_NODES
        assert line["bytes_down"] == line["bytes_down_per_client"] > 1000
        per_user = line["bytes_up_per_user"]
        assert 0 < per_user["p50"] <= per_user["p95"] <= per_user["max"]
        assert line["bytes_up"] > 40 * per_user["mean"]  # its framing is not her rows
        assert line["board_digest"] == digests(tmp_path / "run")[number + 1]
    assert np.all(np.diff([line["epsilon_spent"] for line in outcome.rounds]) > 0)
