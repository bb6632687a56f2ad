"""A Flower app that answers rounds: bytes in, bytes out; everything else is ``fedboard.client.answering``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedboard.client.answering import Gate, RatingSource, Scale, respond
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.wire.answer import refusal
from fedboard.common.wire.flower_record import frame_of, record_of
from fedboard.common.wire.question import Question
from fedboard.common.wire.refusals import Refusal, RefusedError

OpenDevice = Callable[[Context], AbstractContextManager[tuple[RatingSource, Gate]]]
"""Opens the ratings and the gate of the node whose context it gets, for the time of one answer."""


Hear = Callable[[Refusal], None]
"""Is told the code of each refusal, on the device itself."""


def make_client_app(
    open_device: OpenDevice,
    *,
    kernels: Callable[[Context], str] = lambda _: "numpy",
    refused: Hear = lambda _: None,
) -> ClientApp:
    """The app of a node.

    Args:
        open_device: from the node's configuration.
        kernels: which kernels compute, from the same; by default those of the base install.
        refused: is told why a question was refused; what it hears goes nowhere else.
    """
    app = ClientApp()

    @app.query("round")
    def answer_round(message: Message, context: Context) -> Message:
        return Message(record_of(_respond(message, context, open_device, kernels, refused)), reply_to=message)

    return app


def _respond(
    message: Message,
    context: Context,
    open_device: OpenDevice,
    kernels: Callable[[Context], str],
    refused: Hear,
) -> bytes:
    question = frame_of(message.content)
    if question is None:
        refused(Refusal.MALFORMED)
        return refusal(Refusal.MALFORMED)
    try:
        with open_device(context) as (source, gate):
            heard = _HeardGate(gate, refused)
            return respond(question, source=source, gate=heard, backend=kernels(context))
    except Exception:  # its text may hold data of this device
        refused(Refusal.INTERNAL)
        return refusal(Refusal.INTERNAL)


class _HeardGate:
    """A gate of which each refusal is heard, its own and those that it is told of."""

    def __init__(self, gate: Gate, refused: Hear) -> None:
        self._gate, self._refused = gate, refused
        self.recall, self.failed = gate.recall, gate.failed

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        with self._hearing():
            return self._gate.admit(question, board, requests)

    def commit(self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes) -> None:
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


__all__ = ["OpenDevice", "make_client_app"]
