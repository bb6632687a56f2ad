"""A fleet in this process, whose nodes, replies and links can be made to fail at will."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo

from fedboard.client.answering.asker import Asker
from fedboard.client.answering.rounds import RatingSource, respond
from fedboard.client.answering.steps import SessionGate
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.registry import protocol_from
from fedboard.common.protocols.trusted.protocol import DenseMessage, FactoredMessage
from fedboard.common.rounds.flower_parts import frame_of, record_of
from fedboard.common.rounds.question import HELLO, Answer, BookedRound, Question
from fedboard.common.rounds.step import StepMessage
from fedboard.common.wire.refusals import Refusal
from fedboard.common.wire.signing import PRIVATE_NAME
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.fleet.running import run_job
from fedboard.server.publication import BoardStore
from fedboard.server.run_spec import ParticipationChoice, Promise, ProtocolChoice, RoundPace
from fedboard.simulations.flower.local_grid import LocalGrid
from tests.client.asking import ASKER, SERVER, reply_to, sealed
from tests.common.tasks.conftest import N_USERS, a_prepared_board, a_task, population

TASK = a_task()
FIRST_BOARD = TASK.first_board(a_prepared_board(TASK).catalogue)
FIRST_UNDER_REPLACE = a_task(adjacency=Adjacency.REPLACE).first_board(FIRST_BOARD.catalogue)
N_NODES = 4
Tamper = Callable[[Question, bytes], bytes | RecordDict]
"""What a node sends, sealed if it is bytes, from the question and its honest answer out of its envelope."""


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


def opened(context: Context) -> AbstractContextManager[tuple[RatingSource, SessionGate]]:
    one = phone(int(context.node_config["partition-id"]))
    return nullcontext((one, one))


def is_told(message: Message) -> bool:
    """Whether the server tells what it has booked, and asks for no answer."""
    return message.metadata.group_id.startswith("booked")


def an_app(tampers: Mapping[int, Tamper]) -> ClientApp:
    """Honest nodes, but for those that tamper with their answers."""
    app = ClientApp()

    @app.query("hello")
    def greet(message: Message, context: Context) -> Message:
        return Message(record_of(b""), reply_to=message)

    @app.query("round")
    def answer_round(message: Message, context: Context) -> Message:
        content = frame_of(message.content)
        assert content is not None
        number = int(context.node_config["partition-id"])
        if number not in tampers or is_told(message):
            honest = respond(content, source=phone(number), gate=phone(number))
            return Message(record_of(honest), reply_to=message)
        question = Question.from_bytes(ASKER.content(content))
        sent = tampers[number](question, reply_to(question, source=phone(number), gate=phone(number)))
        record = sent if isinstance(sent, RecordDict) else record_of(sealed(sent, question))
        return Message(record, reply_to=message)

    return app


@dataclass
class Weather:
    """What can go wrong on the way; nodes are numbered from 0."""

    present: Callable[[], Iterable[int]] | None = None
    holds: Callable[[int], bool] = lambda _: False
    """Whether the reply of this node is held back for now."""
    mute: Callable[[int], bool] = lambda _: False
    """Whether this node does not reply to greetings for now."""
    push_fails: Callable[[], None] = lambda: None
    pull_fails: Callable[[list[int]], None] = lambda _: None
    changes: Callable[[Message], Message] = lambda reply: reply


class StormyGrid(LocalGrid):
    """A grid in this process with weather. It counts the questions that each node was asked."""

    def __init__(self, app: ClientApp, n_nodes: int, weather: Weather) -> None:
        super().__init__(app, n_nodes, {})
        self.weather, self.asked = weather, [0] * n_nodes
        self._node_of: dict[str, int] = {}
        self._greeted: set[str] = set()

    def get_node_ids(self) -> Iterable[int]:
        present = self.weather.present
        return [n + 1 for n in (range(len(self.asked)) if present is None else present())]

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=n, public_key=f"key-{n - 1}".encode()) for n in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self.weather.push_fails()
        asked = list(messages)
        ids = list(super().push_messages(asked))
        for message, name in zip(asked, ids, strict=True):
            number = message.metadata.dst_node_id - 1
            if message.metadata.message_type == HELLO:
                self._greeted.add(name)
            else:
                self.asked[number] += not is_told(message)
            self._node_of[name] = number
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        ids = list(message_ids)
        if greetings := [name for name in ids if name in self._greeted]:
            replying = [name for name in greetings if not self.weather.mute(self._node_of[name])]
            return super().pull_messages(replying)
        self.weather.pull_fails([self._node_of[name] for name in ids])
        there = [name for name in ids if not self.weather.holds(self._node_of[name])]
        return [self.weather.changes(reply) for reply in super().pull_messages(there)]


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
            "resend_seconds": 0.02,
            "poll_seconds": 0.01,
            "nodes": {f"key-{number}": 100 for number in range(self.n_nodes)},
        }
        files = {"folder": str(self.folder), "first_board": str(first), "question_key": str(key)}
        return job_with(**{**files, **usual, **self.settings})

    def run(self) -> "Outcome":
        grid = StormyGrid(an_app(self.tampers), self.n_nodes, self.weather)
        with grid.running():
            board = run_job(grid, self.job)
        return Outcome(self.folder, board, grid.asked)

    def grid(self) -> StormyGrid:
        return StormyGrid(an_app(self.tampers), self.n_nodes, self.weather)


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


def everything_written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def unsealed(tamper: Callable[[Question, bytes], bytes]) -> Tamper:
    """What it sends goes without an envelope."""
    return lambda question, honest: record_of(tamper(question, honest))


def rewritten(change: Callable[[Answer], Answer], *, n_items: int = 25) -> Tamper:
    """The honest answer with something in it changed."""

    def tamper(question: Question, honest: bytes) -> bytes:
        return change(Answer.from_bytes(honest, limit=1 << 24)).to_bytes(n_items=n_items)

    return tamper


def with_rows(change: Callable[[Contribution], Contribution]) -> Tamper:
    """The honest answer with its rows changed."""

    def changed(answer: Answer) -> Answer:
        assert isinstance(answer.message, FactoredMessage)
        return replace(answer, message=FactoredMessage(change(answer.message.contribution)))

    return rewritten(changed)


def with_sums(change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Tamper:
    """The honest answer with its sums changed."""

    def changed(answer: Answer) -> Answer:
        assert isinstance(answer.message, DenseMessage)
        return replace(answer, message=DenseMessage(change(answer.message.sums)))

    return rewritten(changed)
