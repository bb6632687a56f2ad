"""How a client answers a round: whatever comes in, what goes out is an answer within its bounds or a code."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedboard.client.participation.contributing import RatingSource, Scale, Work, made_from_rows
from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.board import Board
from fedboard.common.boards.validity import Clock
from fedboard.common.contribution import Request, numbers_of
from fedboard.common.errors import FedboardError
from fedboard.common.messages.question import FORM, Answer, BookedRound, Question, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import Envelope
from fedboard.common.messages.step import StepMessage, reply_frame
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ClientTask

if TYPE_CHECKING:
    from fedboard.client.participation.followed_server import FollowedServer
    from fedboard.common.messages.signing import PinnedServer

LARGEST_QUESTION = 64 << 20
"""Most bytes of a question with its board, unless a device is told otherwise."""
LARGEST_ANSWER = 256 << 20
"""Most bytes of the sums that an answer holds, unless a device is told otherwise."""
_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Whose questions a client answers, and how large they may be."""

    server: "PinnedServer | FollowedServer | None"
    """None: nobody's, so that everything is refused."""
    largest: int = LARGEST_QUESTION
    """Most bytes of a question, with the board beside it."""
    largest_answer: int = LARGEST_ANSWER
    """Most bytes of all sums together, where an answer holds sums: what they take grows with the square of the
    rank, and the question with the rank alone."""
    clock: Clock = time.time

    @property
    def id(self) -> str:
        """A short public name of the server's key; empty where nobody is asked by."""
        return "" if self.server is None else self.server.id

    def content(self, signed: bytes, beside: bytes | None = None) -> memoryview:
        """The message of this server.

        Args:
            signed: from anybody.
            beside: the board that came with it.

        Raises:
            RefusedError: ``too-large``, ``unsigned``, ``bad-signature`` or ``expired``.
        """
        if len(signed) + len(beside or b"") > self.largest:
            raise RefusedError(Refusal.TOO_LARGE)
        if self.server is None:
            raise RefusedError(Refusal.BAD_SIGNATURE)
        return self.server.open(signed, beside=beside, clock=self.clock)

    def require_affordable(self, requests: Sequence[Request]) -> None:
        """Hold the sums that are asked for against the limit, before any is made.

        Args:
            requests: of a round that is answered with sums and not with rows.

        Raises:
            RefusedError: ``too-large``.
        """
        numbers = numbers_of(requests)
        if _NUMBER_BYTES * numbers > self.largest_answer:
            raise RefusedError(Refusal.TOO_LARGE)


Refused = Callable[[Refusal], bytes]
"""What is sent in place of an answer."""


class Gate(ABC):
    """Decides whether the client takes part, before anything is asked that depends on ratings, and keeps the record
    of what it gave. Whoever derives from this must decide everything: one that forgets a decision cannot be made.
    """

    asker: Asker
    """Whose questions it answers; whoever derives from this has it."""

    @abstractmethod
    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        """The bytes that answered this very question before, to be sent again as they are; None for a new one, or
        where nothing is kept.

        Raises:
            RefusedError: the policy does not allow the question, or no longer.
        """

    @abstractmethod
    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        """Hold the question against policy, history and limit; books nothing.

        Returns:
            Which part is given.

        Raises:
            RefusedError: it is not answered.
        """

    @abstractmethod
    def commit(
        self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes | None
    ) -> None:
        """Keep the answer on the device, if one is to be kept, then book it, durably; nothing is sent before.

        Raises:
            RefusedError: it cannot be booked.
        """

    @abstractmethod
    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        """Keep durably what the server has booked, and give out nothing for that round and earlier ones any more.

        Args:
            booked: what the server says.
            signed: the message that says it.

        Returns:
            The message that was held before; empty for none.
        """

    @abstractmethod
    def note(self, code: Refusal) -> None:
        """Count a refusal: its own, or one that was made before it was asked."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """Take note that rows could not be computed; they are answered as if they were empty.

        Raises:
            RefusedError: the client rather refuses. A device must not: whether it fails may depend on its ratings,
                and a refusal says so without any noise.
        """

    @abstractmethod
    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        """The protocol that a step names, held to what this client relies on.

        Raises:
            RefusedError: it is not answered.
        """

    @abstractmethod
    def repeat(self, question: Question, requests: Sequence[Request]) -> None:
        """Hold a contribution that was given in this session, and is asked for again, against the policy of today.

        Raises:
            RefusedError: it is not given again.
        """

    @abstractmethod
    def welcome(self, step: StepMessage) -> None:
        """Hold the first step of a session against policy and history; books nothing.

        Raises:
            RefusedError: it is not answered.
        """


class OpenGate(Gate):
    """Answers everything that its one server asks and keeps no record: the run's own ledger counts for all.

    Somebody's device has a ``fedboard.client.participation.gate`` instead, with a policy, a limit and a ledger.
    """

    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        """Nothing is kept: what is asked again is worked out again, to the same bytes."""
        return None

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        """All of everything."""
        return 1.0

    def commit(
        self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes | None
    ) -> None:
        """Nothing to book."""

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        """Nothing is kept."""
        return b""

    def note(self, code: Refusal) -> None:
        """The server counts."""

    def protocol_of(self, step: StepMessage, *, backend: str) -> AggregationProtocol:
        """None: who takes part in sessions says in which."""
        raise RefusedError(Refusal.BAD_PROTOCOL)

    def repeat(self, question: Question, requests: Sequence[Request]) -> None:
        """Whatever was given in a session is given again."""

    def welcome(self, step: StepMessage) -> None:
        """To every session."""


def unheard(code: Refusal) -> None:
    """Nobody on this device is told of a refusal as it is made."""


def respond(
    question: bytes,
    *,
    source: RatingSource,
    gate: Gate,
    backend: str = "numpy",
    heard: Callable[[Refusal], object] = unheard,
) -> bytes:
    """Answer one question, or keep what the server says that it has booked.

    Guarantee: never raises, and what it returns, sealed to the server's key, is an answer that was checked against
    every bound of the releases and booked by the gate, or a refusal that is a code alone. Nothing of a question is
    read, and nothing is sealed to its key, unless the server that the gate names has signed it. Whether it is
    refused depends on the question, the policy and what was given before, never on the ratings; a question that is
    asked again is held against the policy again.

    Args:
        question: signed, from a server that need not be honest.
        source: the ratings. Private.
        gate: policy and record.
        backend: which kernels compute.
        heard: is told the code of a refusal, on the device itself.
    """

    def refused(code: Refusal) -> bytes:
        return noted(gate, code, heard)

    try:
        content = gate.asker.content(question)
        with suppress(RefusedError):  # it is no such message
            return _held(BookedRound.from_bytes(content), question, gate, refused)
        asked = Question.from_bytes(content)
        envelope = Envelope.to(asked.reply_key, about=asked.about)
    except RefusedError as error:
        return refused(error.code)
    return sealed_reply(envelope, lambda: _reply(asked, source, gate, backend), refused)


def _held(booked: BookedRound, signed: bytes, gate: Gate, refused: Refused) -> bytes:
    """What the server itself has said before: nothing of this device, so it is not sealed."""
    try:
        return reply_frame(gate.hold(booked, signed))
    except Exception:  # it is not kept, so it must not be confirmed
        return refused(Refusal.INTERNAL)


def _reply(question: Question, source: RatingSource, gate: Gate, backend: str) -> bytes:
    if question.protocol != Trusted.NAME or question.form != FORM:
        raise RefusedError(Refusal.WRONG_FORM)
    task, requests = asked_of(question, backend)
    kept = gate.recall(question, requests)
    if kept is not None:
        return kept
    scale = gate.admit(question, question.board, requests)
    work = Work(task, question.board, requests)
    work.require_sound()
    protocol = Trusted(backend=backend)
    cohort, given = made_from_rows(
        work, source, scale, lambda rows: protocol.encode(rows, work.requests), gate.failed
    )
    answer = Answer(
        run=question.run,
        round=question.round,
        board_digest=question.board.digest,
        n_users=cohort.n_users,
        first_row=cohort.first_row,
        rows=given,
    ).to_bytes(n_items=cohort.n_items)
    gate.commit(question, requests, scale, answer)
    return answer


def sealed_reply(envelope: Envelope, make: Callable[[], bytes], refused: Refused) -> bytes:
    """What ``make`` gives, or a refusal that is a code alone, sealed.

    Args:
        envelope: of the one who asked.
        make: what is said.
        refused: gives what is said instead.
    """
    try:
        return envelope.seal(make())
    except RefusedError as error:
        return envelope.seal(refused(error.code))
    except Exception:  # its text may hold data of this device
        return envelope.seal(refused(Refusal.INTERNAL))


def noted(gate: Gate, code: Refusal, heard: Callable[[Refusal], object]) -> bytes:
    """A refusal as it is sent: each that leaves this device is counted by the gate and heard here, once."""
    heard(code)
    with suppress(Exception):  # a count that cannot be written is no reason to say anything else
        gate.note(code)
    return refusal(code)


def asked_of(question: Question, backend: str) -> tuple[ClientTask, tuple[Request, ...]]:
    """The task of the board and what it asks next: the board's word, not the server's.

    Raises:
        RefusedError: the board's task cannot be rebuilt, or it asks for nothing more.
    """
    try:
        task = rebuild_any(question.board, backend=backend)
        requests = task.requests(question.board)
    except (FedboardError, ArithmeticError, LookupError, TypeError, ValueError):
        raise RefusedError(Refusal.BAD_BOARD) from None
    if not requests:
        raise RefusedError(Refusal.WRONG_ROUND)
    return task, requests
