"""A gate whose refusals are heard on the device itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fedboard.client.answering.rounds import Scale
from fedboard.client.answering.steps import SessionGate
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.rounds.question import Question
from fedboard.common.rounds.step import StepMessage
from fedboard.common.wire.refusals import Refusal, RefusedError

Hear = Callable[[Refusal], None]
"""Is told the code of each refusal, on the device itself."""


class HeardGate:
    """A gate of which each refusal is heard, its own and those that it is told of."""

    def __init__(self, gate: SessionGate, refused: Hear) -> None:
        """Stand before a gate.

        Args:
            gate: decides.
            refused: is told.
        """
        self._gate, self._refused = gate, refused
        self.asker, self.failed, self.hold = gate.asker, gate.failed, gate.hold

    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        """As the gate has it."""
        with self._hearing():
            return self._gate.recall(question, requests)

    def repeat(self, question: Question, requests: Sequence[Request]) -> None:
        """As the gate has it."""
        with self._hearing():
            self._gate.repeat(question, requests)

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        """As the gate has it."""
        with self._hearing():
            return self._gate.protocol_of(step, backend=backend)

    def welcome(self, step: StepMessage) -> None:
        """As the gate has it."""
        with self._hearing():
            self._gate.welcome(step)

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        """As the gate has it."""
        with self._hearing():
            return self._gate.admit(question, board, requests)

    def commit(
        self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes | None
    ) -> None:
        """As the gate has it."""
        with self._hearing():
            self._gate.commit(question, requests, scale, answer)

    def note(self, code: Refusal) -> None:
        """Told, and handed on."""
        self._refused(code)
        self._gate.note(code)

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        try:
            yield
        except RefusedError as error:
            self._refused(error.code)
            raise
