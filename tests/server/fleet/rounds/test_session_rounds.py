"""Sessions with nodes: who drops out is out, what is bad counts alone, and a round has an end whatever happens."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fedboard.client.participation.steps import Client, MemoryVault, respond_to
from fedboard.common.board import Board
from fedboard.common.contribution_bounding.participation import Attendance, PoissonParticipation
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.messages.question import STEP, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import Envelope
from fedboard.common.messages.step import StepMessage, reply_frame
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.server.fleet.job import protocol_of
from fedboard.server.fleet.rounds.session_rounds import SessionRuntime
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.state_folder import RoundLog
from tests.client.asking import ASKER, SERVER
from tests.server.fleet.local_fleet import (
    N_NODES,
    TASK,
    AnswerOf,
    Fleet,
    Phone,
    StormyNodes,
    Twice,
    Weather,
    calm_boards,
    digests,
    events,
    phone,
)

pytestmark = pytest.mark.slow

N_ROUNDS = 3
KEYS, SHARES, MASKED, UNMASK = range(4)
STEPS = 4
SECURE: dict[str, Any] = {
    "protocol": "secure-sum",
    "protocol_settings": {"survivors": 3, "most_users": 400},
    "quorum": 3,
    "deadline_seconds": 0.8,
}
Spoil = Callable[[StepMessage, bytes], bytes]
"""What a node sends as it travels, from the step and what it would have sent."""


def honest(step: StepMessage, sent: bytes) -> bytes:
    return sent


@dataclass(kw_only=True)
class Nodes:
    """The nodes of a fleet, each of which can be spoilt; and what they were asked."""

    gate: Callable[[int], Phone] = phone
    spoilt: dict[int, Spoil] = field(default_factory=dict)
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    """(node, round, step)."""
    boards: int = 0
    """Steps that came with a board."""

    def answering(self, lost: Callable[[int, int, int], bool]) -> AnswerOf:
        """What they send, each with its memory of the session; of what is lost nothing comes."""
        vaults = defaultdict[int, MemoryVault](MemoryVault)

        def answer(number: int, kind: str, frame: bytes, board: bytes | None) -> bytes | None:
            one = self.gate(number)
            sent = respond_to(kind, frame, board, Client(source=one, gate=one, vault=vaults[number]))
            if kind != STEP:
                return sent
            step = StepMessage.from_bytes(ASKER.content(frame, board))
            self.asked.append((number, step.round, step.number))
            self.boards += board is not None
            if lost(number, step.round, step.number):
                return None
            return self.spoilt.get(number, honest)(step, sent)

        return answer


def never(number: int, version: int, step: int) -> bool:
    return False


def run(
    folder: Path,
    nodes: Nodes | None = None,
    *,
    lost: Callable[[int, int, int], bool] = never,
    weather: Weather | None = None,
    n_nodes: int = N_NODES,
    members: Callable[[], Mapping[str, int]] | None = None,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Run a training; the lines of its log."""
    fleet = Fleet(folder, n_nodes=n_nodes, settings={**SECURE, **settings}, members=members)
    answer = (nodes or Nodes()).answering(lost)
    run_job(StormyNodes(answer, n_nodes, weather or Weather(), fleet.who_is_admitted()), fleet.job)
    return RoundLog(folder / "rounds.jsonl").lines()


@pytest.fixture(scope="module")
def of_nodes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[str]]:
    return calm_boards(lambda folder, n: run(folder, n_nodes=n), tmp_path_factory)


def test_a_round_takes_its_steps_and_the_board_travels_in_one_of_them(tmp_path: Path) -> None:
    nodes = Nodes()

    lines = run(tmp_path / "run", nodes)

    assert nodes.asked == [
        (number, version, step)
        for version in range(N_ROUNDS)
        for step in range(STEPS)
        for number in range(N_NODES)
    ]
    assert nodes.boards == N_NODES * N_ROUNDS
    assert [line["answers"] for line in lines] == [N_NODES] * N_ROUNDS
    for line in lines:
        assert [step["contributions"] for step in line["steps"]] == [False, False, True, False]
        assert [step["answered"] for step in line["steps"]] == [N_NODES] * STEPS
        assert sum(step["bytes_up"] for step in line["steps"]) == line["bytes_up"]
        assert line["steps"][MASKED]["bytes_down"] > 2 * line["steps"][KEYS]["bytes_down"]
        assert line["refused"] == {}


@pytest.mark.parametrize("step", range(STEPS))
def test_who_drops_out_is_in_the_sum_only_if_her_masked_input_was_taken(
    tmp_path: Path, of_nodes: Callable[[int], list[str]], step: int
) -> None:
    lines = run(tmp_path / "run", lost=lambda number, _, at: number == 3 and at == step)

    assert digests(tmp_path / "run") == of_nodes(N_NODES if step == UNMASK else 3)
    assert of_nodes(N_NODES)[1:] != of_nodes(3)[1:]
    for line in lines:
        assert line["steps"][step]["answered"] == 3
        assert line["refused"] == {"late": 1}
        assert [asked["asked"] for asked in line["steps"]] == [N_NODES] * (step + 1) + [3] * (
            STEPS - step - 1
        )


def unsealed(step: StepMessage, sent: bytes) -> bytes:
    return reply_frame(b"as it is")


def resealed(reply: bytes) -> Spoil:
    return lambda step, sent: Envelope.to(step.reply_key, about=step.sealed_about).seal(reply)


def of_another_step(step: StepMessage, sent: bytes) -> bytes:
    other = replace(step, number=step.number + 1)
    return Envelope.to(step.reply_key, about=other.sealed_about).seal(reply_frame(b"x"))


SPOILT: list[Spoil] = [
    lambda step, sent: b"",
    lambda step, sent: sent[:-1],
    lambda step, sent: bytes(1 << 25),
    unsealed,
    of_another_step,
    resealed(b"junk"),
    resealed(reply_frame(b"")),
    resealed(reply_frame(bytes(5000))),
    resealed(refusal(Refusal.INTERNAL)),
]


@pytest.mark.parametrize(("first", "at"), [(0, KEYS), (3, SHARES), (6, MASKED), (3, MASKED)])
def test_a_reply_that_is_none_is_refused_alone(
    tmp_path: Path, of_nodes: Callable[[int], list[str]], first: int, at: int
) -> None:
    """Another one in each round."""

    def spoil(step: StepMessage, sent: bytes) -> bytes:
        return SPOILT[first + step.round](step, sent) if step.number == at else sent

    lines = run(tmp_path / "run", Nodes(spoilt={3: spoil}))

    assert digests(tmp_path / "run") == of_nodes(3)
    assert all(sum(line["refused"].values()) > 0 for line in lines)
    assert [line["answers"] for line in lines] == [3] * N_ROUNDS


def test_what_comes_twice_counts_once(tmp_path: Path, of_nodes: Callable[[int], list[str]]) -> None:
    fleet = Fleet(tmp_path / "run", settings={**SECURE, "deadline_seconds": 20.0})
    run_job(Twice(Nodes().answering(never), N_NODES, Weather(), fleet.who_is_admitted()), fleet.job)

    assert digests(tmp_path / "run") == of_nodes(N_NODES)
    lines = RoundLog(tmp_path / "run" / "rounds.jsonl").lines()
    assert [line["refused"] for line in lines] == [{"duplicate": STEPS * N_NODES}] * N_ROUNDS


class Declines(Phone):
    """A gate whose policy refuses the run, which it can say only when it sees the board."""

    def admit(self, *asked: Any) -> float:
        raise RefusedError(Refusal.OVER_LIMIT)


def test_who_declines_the_run_is_not_asked_in_later_rounds(
    tmp_path: Path, of_nodes: Callable[[int], list[str]]
) -> None:
    nodes = Nodes(gate=lambda number: Declines(phone(3).ratings) if number == 3 else phone(number))

    lines = run(tmp_path / "run", nodes)

    assert digests(tmp_path / "run") == of_nodes(3)
    assert [line["refused"] for line in lines] == [{"over-limit": 1}, {}, {}]
    assert {version for number, version, _ in nodes.asked if number == 3} == {0}


def test_below_the_quorum_nothing_is_released_and_what_was_given_is_paid_for(tmp_path: Path) -> None:
    with pytest.raises(
        TooFewAnswersError, match=r"round 0: 3 nodes gave .* quorum is 4; .*\(not taken: late 1\)"
    ) as error:
        run(tmp_path / "run", lost=lambda number, _, at: number == 3 and at == MASKED, quorum=4)

    assert error.value.given
    assert len(digests(tmp_path / "run")) == 1
    assert events(tmp_path / "run")
    with pytest.raises(PrivacyError, match="paid for but never published"):
        run(tmp_path / "run", noise="secure")


def test_who_leaves_before_anything_is_given_costs_nothing(
    tmp_path: Path, of_nodes: Callable[[int], list[str]]
) -> None:
    with pytest.raises(TooFewAnswersError) as error:
        run(tmp_path / "run", lost=lambda number, _, at: number > 1 and at == KEYS)
    assert not error.value.given
    assert not events(tmp_path / "run")

    run(tmp_path / "run")

    assert digests(tmp_path / "run") == of_nodes(N_NODES)


def test_a_later_round_that_is_lost_is_booked_and_skipped(tmp_path: Path) -> None:
    lines = run(
        tmp_path / "run", lost=lambda number, version, at: version == 1 and number > 1 and at == UNMASK
    )

    assert [len(line["releases"]) > 0 for line in lines] == [True, False, True]
    assert len(events(tmp_path / "run")) == sum(len(asked) for asked in TASK.plan())


@dataclass(frozen=True)
class Once(Phone):
    """A gate that gives once for each round."""

    given: set[tuple[int, int]] = field(default_factory=set)
    number: int = 0

    def welcome(self, step: StepMessage) -> None:
        if (self.number, step.round) in self.given:
            raise RefusedError(Refusal.ANSWERED_BEFORE)

    def commit(self, question: Any, *asked: Any) -> None:
        self.given.add((self.number, question.round))


def test_a_server_that_loses_its_session_has_lost_the_round(tmp_path: Path) -> None:
    given: set[tuple[int, int]] = set()
    nodes = Nodes(gate=lambda number: Once(phone(number).ratings, given, number))

    def killed(number: int, version: int, at: int) -> bool:
        if version == 1 and at == UNMASK:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", nodes, lost=killed)
    assert len(given) == 2 * N_NODES

    lines = run(tmp_path / "run", nodes, deadline_seconds=0.5)

    assert [len(line["releases"]) > 0 for line in lines] == [True, False, True]
    assert lines[1]["refused"] == {"answered-before": N_NODES}


def test_a_preparation_that_was_lost_after_it_was_given_is_paid_for(tmp_path: Path) -> None:
    """Else a server could ask the devices for ever, and they would refuse for ever."""
    given: set[tuple[int, int]] = set()
    nodes = Nodes(gate=lambda number: Once(phone(number).ratings, given, number))

    def killed(number: int, version: int, at: int) -> bool:
        if at == UNMASK:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", nodes, lost=killed)
    assert not events(tmp_path / "run")

    with pytest.raises(TooFewAnswersError, match="answered-before 4") as error:
        run(tmp_path / "run", nodes, deadline_seconds=0.5)

    assert error.value.given
    assert events(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"protocol": "no-such"}, "protocol must be one of trusted"),
        ({"protocol_settings": {"no_such": 1}}, "no_such"),
        ({"quorum": 2}, "quorum is 2, and protocol 'secure-sum' needs more"),
        ({"protocol": "two-server", "protocol_settings": {}}, "needs a second server"),
    ],
    ids=["name", "setting", "quorum", "helper"],
)
def test_what_cannot_be_is_said_before_anybody_is_asked(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    nodes = Nodes()
    with pytest.raises(InputError, match=says):
        run(tmp_path / "run", nodes, **change)
    assert not nodes.asked


def test_a_training_keeps_to_the_protocol_that_it_was_begun_under(tmp_path: Path) -> None:
    run(tmp_path / "run")

    with pytest.raises(InputError, match="begun under protocol 'secure-sum'; start a new one for 'trusted'"):
        run(tmp_path / "run", protocol="trusted", protocol_settings={})


def test_who_takes_part_cannot_be_drawn_by_whoever_sees_no_rows(tmp_path: Path) -> None:
    job = Fleet(tmp_path / "run", settings=SECURE).job
    nodes, protocol = Fleet(tmp_path / "run").nodes(), protocol_of(job)
    runtime = SessionRuntime(
        nodes=nodes,
        job=job,
        key=SERVER,
        run="r",
        protocol=protocol,
        of_round=lambda _: protocol,
    )
    board = Board.load(Path(job.first_board))
    coins = PoissonParticipation(0.5)
    attendance = Attendance(participation=coins, name="preparation", noise=SeededNoise(0))
    with pytest.raises(PrivacyError, match="only be drawn by an aggregator that sees rows"):
        runtime.gather(board, TASK.requests(board), attendance)
