"""A fleet in this process, whose nodes, replies and links can be made to fail at will."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedboard.client.participation.opening import open_device
from fedboard.client.participation.rounds import Asker, respond
from fedboard.client.participation.steps import Client, MemoryVault, respond_to
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.messages.question import ROUND, STEP, Answer, BookedRound, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import PRIVATE_NAME
from fedboard.common.messages.step import StepMessage
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.registry import protocol_from
from fedboard.server.fleet.job import Job
from fedboard.server.fleet.mailbox import Message, Reply
from fedboard.server.fleet.register import Capacity
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.state_folder import RoundLog
from fedboard.server.publication import BoardStore
from fedboard.server.run_spec import ParticipationChoice, Promise, ProtocolChoice, RoundPace
from fedboard.simulations.flower.training import Answer as Answering
from tests.client.asking import ASKER, SERVER, reply_to, sealed
from tests.common.algorithms.conftest import N_USERS, a_prepared_board, a_task, population

TASK = a_task()
FIRST_BOARD = TASK.first_board(a_prepared_board(TASK).catalogue)
FIRST_UNDER_REPLACE = a_task(adjacency=Adjacency.REPLACE).first_board(FIRST_BOARD.catalogue)
N_NODES = 4
Tamper = Callable[[Question, bytes], bytes]
"""What a node sends, to be sealed unless it is ``AsItIs``, from the question and its honest answer."""


@dataclass(frozen=True)
class Phone:
    """A node's ratings; it answers everything."""

    ratings: Cohort
    asker: Asker = field(default=ASKER, kw_only=True)

    @property
    def n_users(self) -> int:
        return self.ratings.n_users

    def cohort(self, board: Board) -> Cohort:
        return self.ratings

    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        return None

    def repeat(self, question: Question, requests: Sequence[Request]) -> None: ...

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> float:
        return 1.0

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        return protocol_from(step.protocol, step.parameters, backend=backend)

    def welcome(self, step: StepMessage) -> None: ...

    def commit(
        self, question: Question, requests: Sequence[Request], scale: object, answer: bytes | None
    ) -> None: ...

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        return b""

    def note(self, code: Refusal) -> None: ...

    def failed(self, error: Exception) -> None:
        raise error


def phone(number: int) -> Phone:
    return Phone(population().rows(N_USERS * number // N_NODES, N_USERS * (number + 1) // N_NODES))


class AsItIs(bytes):
    """What a node sends without an envelope."""


def question_in(kind: str, frame: bytes, beside: bytes | None) -> Question | None:
    """What is asked; None where the server tells what it has booked, or asks for a step."""
    with suppress(RefusedError):
        if kind == ROUND:
            return Question.from_bytes(ASKER.content(frame, beside))
    return None


AnswerOf = Callable[[int, str, bytes, bytes | None], bytes | None]
"""(node, kind, message, board) -> what the node sends; None: nothing comes back."""


def answers_of(tampers: Mapping[int, Tamper]) -> AnswerOf:
    """Honest nodes, but for those that tamper with their answers."""

    def answer(number: int, kind: str, frame: bytes, beside: bytes | None) -> bytes:
        question, one = question_in(kind, frame, beside), phone(number)
        if number not in tampers or question is None:
            return respond(frame, source=one, gate=one)
        sent = tampers[number](question, reply_to(question, source=one, gate=one))
        return sent if isinstance(sent, AsItIs) else sealed(sent, question)

    return answer


def answers_of_devices(places: Sequence[Path], heard: list[Refusal]) -> list[Answering]:
    """Devices in this process, each with its own file, gate and ledger.

    Args:
        places: their ``device.toml``.
        heard: gets the code of each refusal.
    """

    def answering(place: Path) -> Answering:
        vault = MemoryVault()

        def answer(kind: str, frame: bytes, board: bytes | None) -> bytes:
            with open_device(place) as (source, gate):
                client = Client(source=source, gate=gate, vault=vault, heard=heard.append)
                return respond_to(kind, frame, board, client)

        return answer

    return [answering(place) for place in places]


@dataclass
class Weather:
    """What can go wrong on the way; nodes are numbered from 0."""

    present: Callable[[], Iterable[int]] | None = None
    holds: Callable[[int], bool] = lambda _: False
    """Whether the reply of this node is held back for now."""
    looked: Callable[[list[int]], None] = lambda _: None
    """Is told at each look for replies whose are waited for."""


class StormyNodes:
    """Nodes of this process with weather: one answers when it is asked; its reply comes when the weather lets it
    through. It counts the questions that each node was asked.
    """

    def __init__(
        self,
        answer: AnswerOf,
        n_nodes: int,
        weather: Weather,
        members: Callable[[], Mapping[str, int]],
    ) -> None:
        self.answer, self.weather, self.asked = answer, weather, [0] * n_nodes
        self.admitted = members
        self.coming, self.waiting = dict[int, Reply](), set[int]()

    def present(self) -> Mapping[str, int]:
        there = self.weather.present
        numbers = range(len(self.asked)) if there is None else there()
        admitted = self.admitted()
        return {f"key-{n}": admitted[f"key-{n}"] for n in numbers if f"key-{n}" in admitted}

    def ask(self, messages: Mapping[str, Message], *, largest: int, seconds: float) -> None:
        for name, message in messages.items():
            number, kind, frame = int(name.removeprefix("key-")), message.kind, message.frame
            beside = message.beside or None
            self.asked[number] += kind == STEP or question_in(kind, frame, beside) is not None
            self.waiting.add(number)
            try:
                content = self.answer(number, kind, frame, beside)
            except Exception:  # its text goes nowhere
                self.coming[number] = Reply(name, None, Refusal.UNREACHABLE)
            else:
                if content is not None:
                    self.coming[number] = Reply(name, content)

    def replies(self, *, wait: float) -> list[Reply]:
        self.weather.looked(sorted(self.waiting))
        there = [number for number in list(self.coming) if not self.weather.holds(number)]
        self.waiting -= set(there)
        if not there:
            time.sleep(min(wait, 0.002))
        return [self.coming.pop(number) for number in there]

    def end(self) -> None:
        self.coming.clear()
        self.waiting.clear()


def job_with(
    *, protocol: str = "trusted", protocol_settings: dict[str, Any] | None = None, **named: Any
) -> Job:
    """A job of settings by name; ``probability``, ``size`` and ``cohorts`` say who is drawn."""
    kinds = {"probability": "poisson", "size": "fixed-size", "cohorts": "shuffled-cohorts"}
    if drawn := {name: named.pop(name) for name in kinds if name in named}:
        named["participation"] = ParticipationChoice(kind=kinds[min(drawn)], **drawn)
    privacy, pace, chosen = (
        {name: named.pop(name) for name in section.__struct_fields__ if name in named}
        for section in (Promise, RoundPace, ProtocolChoice)
    )
    return Job(
        privacy=Promise(**privacy),
        rounds=RoundPace(**pace),
        protocol=ProtocolChoice(name=protocol, settings=protocol_settings or {}, **chosen),
        **named,
    )


@dataclass
class Fleet:
    """A job in a folder, to be run over nodes that may fail."""

    folder: Path
    tampers: Mapping[int, Tamper] = field(default_factory=dict)
    weather: Weather = field(default_factory=Weather)
    n_nodes: int = N_NODES
    first_board: Board = FIRST_BOARD
    settings: dict[str, Any] = field(default_factory=dict)
    members: Callable[[], Mapping[str, int]] | None = None

    @property
    def job(self) -> Job:
        self.folder.mkdir(exist_ok=True)
        first = self.folder / "first.board"
        counted = not {"size", "cohorts"}.isdisjoint(self.settings)  # accounted under replace alone
        (FIRST_UNDER_REPLACE if counted else self.first_board).save(first)
        key = self.folder / PRIVATE_NAME
        if not key.exists():
            SERVER.write(self.folder)
        usual: dict[str, Any] = {
            "adjacency": Adjacency.REPLACE if counted else Adjacency.ADD_REMOVE,
            "epsilon": 5.0,
            "delta": 1e-5,
            "noise": "seeded",
            "expected_nodes": self.n_nodes,
            "quorum": 1,
            "deadline_seconds": 20.0,
            "grace_seconds": 0.05,
            **self._of_members(),
        }
        files = {"folder": str(self.folder), "first_board": str(first), "question_key": str(key)}
        return job_with(**{**files, **usual, **self.settings})

    def _of_members(self) -> dict[str, Any]:
        """A fleet of members, but where it is drawn who takes part, which needs users whose number is fixed."""
        if not {"size", "cohorts", "probability"}.isdisjoint(self.settings):
            return {"users": 100 * self.n_nodes}
        devices = max(self.n_nodes, self.settings.get("expected_nodes", 0))
        return {"enrolled": Capacity(devices=devices, users=100 * devices)}

    def run(self, **told: Any) -> "Outcome":
        nodes = self.nodes()
        return Outcome(self.folder, run_job(nodes, self.job, **told), nodes.asked)

    def nodes(self) -> StormyNodes:
        return StormyNodes(answers_of(self.tampers), self.n_nodes, self.weather, self.who_is_admitted())

    def who_is_admitted(self) -> Callable[[], Mapping[str, int]]:
        """The members; where none are given, all nodes."""
        everybody = {f"key-{n}": 100 for n in range(self.n_nodes)}
        return self.members or (lambda: everybody)


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    folder: Path
    board: Board
    asked: list[int]

    @property
    def rounds(self) -> list[dict[str, Any]]:
        return RoundLog(self.folder / "rounds.jsonl").lines()

    @property
    def refused(self) -> dict[str, int]:
        """Over all rounds."""
        found: dict[str, int] = {}
        for line in self.rounds:
            for code, count in line["refused"].items():
                found[code] = found.get(code, 0) + count
        return found


def events(folder: Path) -> list[dict[str, Any]]:
    with Ledger.open(folder / "ledger.sqlite", read_only=True) as ledger:
        return [dict(event) for event in ledger.events()]


def digests(folder: Path) -> list[str]:
    store = BoardStore(folder / "boards")
    return [store.load(version).digest for version in store.versions()]


class KilledError(BaseException):
    """What an interrupted process looks like from inside."""


@contextmanager
def killed_at_board(version: int, *, published: bool = False) -> Iterator[None]:
    """The process ends when all is booked and this board is not yet there, or once it is."""
    publish = BoardStore.publish

    def watched(self: BoardStore, board: Board, *arguments: Any, **keywords: Any) -> Board:
        if board.version != version:
            return publish(self, board, *arguments, **keywords)
        if published:
            publish(self, board, *arguments, **keywords)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoardStore, "publish", watched)
        with pytest.raises(KilledError):
            yield


class Twice(StormyNodes):
    """Each reply comes twice."""

    def replies(self, *, wait: float) -> list[Reply]:
        return [same for reply in super().replies(wait=wait) for same in (reply, reply)]


def calm_boards(
    run: Callable[[Path, int], object], folders: pytest.TempPathFactory
) -> Callable[[int], list[str]]:
    """The boards of an undisturbed run over the first nodes."""

    @cache
    def boards(n_nodes: int) -> list[str]:
        folder = folders.mktemp("calm") / "run"
        run(folder, n_nodes)
        return digests(folder)

    return boards


def unsealed(tamper: Callable[[Question, bytes], bytes]) -> Tamper:
    """What it sends goes without an envelope."""
    return lambda question, honest: AsItIs(tamper(question, honest))


def rewritten(change: Callable[[Answer], Answer], *, n_items: int = 25) -> Tamper:
    """The honest answer with something in it changed."""

    def tamper(question: Question, honest: bytes) -> bytes:
        return change(Answer.from_bytes(honest, limit=1 << 24)).to_bytes(n_items=n_items)

    return tamper


def with_rows(change: Callable[[Contribution], Contribution]) -> Tamper:
    """The honest answer with its rows changed."""

    def changed(answer: Answer) -> Answer:
        return replace(answer, rows=change(answer.rows))

    return rewritten(changed)
