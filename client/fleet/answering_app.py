"""A Flower app that answers rounds: bytes in, bytes out; all else is ``fedboard.client.answering``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedboard.client.answering.rounds import RatingSource, Scale, respond
from fedboard.client.answering.steps import Client, NoiseOf, SessionGate, respond_step, secure_noise
from fedboard.client.fleet.session_state import ContextVault
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.rounds.answer import refusal
from fedboard.common.rounds.flower_record import frame_of, frames_of, record_of
from fedboard.common.rounds.question import Question
from fedboard.common.rounds.step import StepMessage
from fedboard.common.wire.refusals import Refusal, RefusedError

OpenDevice = Callable[[Context], AbstractContextManager[tuple[RatingSource, SessionGate]]]
"""Opens the ratings and the gate of the node whose context it gets, for the time of one answer."""


Hear = Callable[[Refusal], None]
"""Is told the code of each refusal, on the device itself."""


def make_client_app(
    open_device: OpenDevice,
    *,
    kernels: Callable[[Context], str] = lambda _: "numpy",
    noise: Callable[[Context], NoiseOf] = lambda _: secure_noise,
    refused: Hear = lambda _: None,
) -> ClientApp:
    """The app of a node.

    Args:
        open_device: from the node's configuration.
        kernels: which kernels compute, from the same; by default those of the base install.
        noise: where the node's own noise comes from, from the same; by default nobody can reproduce it.
        refused: is told why a question was refused; what it hears goes nowhere else.
    """
    app = ClientApp()

    def reply(context: Context, respond_to: Callable[[RatingSource, SessionGate], bytes]) -> bytes:
        try:
            with open_device(context) as (source, gate):
                return respond_to(source, _HeardGate(gate, refused))
        except Exception:  # its text may hold data of this device
            refused(Refusal.INTERNAL)
            return refusal(Refusal.INTERNAL)

    def unreadable() -> bytes:
        refused(Refusal.MALFORMED)
        return refusal(Refusal.MALFORMED)

    @app.query("hello")
    def greet(message: Message, context: Context) -> Message:
        """It is there: nothing of the device is opened, and nothing else is said."""
        return Message(record_of(b""), reply_to=message)

    @app.query("round")
    def answer_round(message: Message, context: Context) -> Message:
        question = frame_of(message.content)
        if question is None:
            return Message(record_of(unreadable()), reply_to=message)
        sent = reply(
            context,
            lambda source, gate: respond(question, source=source, gate=gate, backend=kernels(context)),
        )
        return Message(record_of(sent), reply_to=message)

    @app.query("step")
    def answer_step(message: Message, context: Context) -> Message:
        found = frames_of(message.content)
        if found is None:
            return Message(record_of(unreadable()), reply_to=message)

        def answered(source: RatingSource, gate: SessionGate) -> bytes:
            client = Client(
                source=source,
                gate=gate,
                vault=ContextVault(context),
                noise=noise(context),
                backend=kernels(context),
            )
            return respond_step(*found, client)

        return Message(record_of(reply(context, answered)), reply_to=message)

    return app


class _HeardGate:
    """A gate of which each refusal is heard, its own and those that it is told of."""

    def __init__(self, gate: SessionGate, refused: Hear) -> None:
        self._gate, self._refused = gate, refused
        self.asker, self.failed = gate.asker, gate.failed

    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        with self._hearing():
            return self._gate.recall(question, requests)

    def repeat(self, question: Question, requests: Sequence[Request]) -> None:
        with self._hearing():
            self._gate.repeat(question, requests)

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        with self._hearing():
            return self._gate.protocol_of(step, backend=backend)

    def welcome(self, step: StepMessage) -> None:
        with self._hearing():
            self._gate.welcome(step)

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        with self._hearing():
            return self._gate.admit(question, board, requests)

    def commit(
        self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes | None
    ) -> None:
        with self._hearing():
            self._gate.commit(question, requests, scale, answer)

    def note(self, code: Refusal) -> None:
        self._refused(code)
        self._gate.note(code)

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        try:
            yield
        except RefusedError as error:
            self._refused(error.code)
            raise
