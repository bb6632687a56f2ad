"""How a client answers a round: whatever comes in, what goes out is an answer within its bounds or a code."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.personal import require_personal_bounds, scale_contribution
from fedboard.common.protocols.joining import joined
from fedboard.common.protocols.trusted import FactoredMessage, Trusted, TrustedMessage
from fedboard.common.task import Task
from fedboard.common.tasks.rebuilding import rebuild_task
from fedboard.common.wire.answer import Answer, refusal
from fedboard.common.wire.question import Question
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.common.wire.sealing import Envelope

Scale = float | FloatArray
"""Which part is given: s in (0, 1], or one for each row, float64, shape (n_users,)."""


class RatingSource(Protocol):
    """Where a client's ratings are: one row on a phone, many at a gateway."""

    @property
    def n_users(self) -> int:
        """Number of rows."""
        ...

    def cohort(self, board: Board) -> Cohort:
        """The ratings in the board's catalogue; what the catalogue does not hold is left out. Private."""
        ...


class Gate(Protocol):
    """Decides whether the client takes part, and keeps the record of what it gave."""

    def recall(self, question: Question) -> bytes | None:
        """The bytes that answered this very question before, to be sent again as they are."""
        ...

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        """Hold the question against policy, history and limit; books nothing.

        Raises:
            RefusedError: it is not answered.
        """
        ...

    def commit(self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes) -> None:
        """Keep the answer on the device, then book it, durably; nothing is sent before this returns.

        Raises:
            RefusedError: it cannot be booked.
        """
        ...

    def note(self, code: Refusal) -> None:
        """Count a refusal that was not this gate's own."""
        ...

    def failed(self, error: Exception) -> None:
        """Take note that rows could not be computed; they are answered as if they were empty.

        Raises:
            RefusedError: the client rather refuses. A device must not: whether it fails may depend on its ratings,
                and a refusal says so without any noise.
        """
        ...


def respond(question: bytes, *, source: RatingSource, gate: Gate, backend: str = "numpy") -> bytes:
    """Answer one question.

    Guarantee: never raises, and what it returns, sealed to the server's key, is an answer that was checked against
    every bound of the releases and booked by the gate, or a refusal that is a code alone. Whether it is refused
    depends on the question, the policy and what was given before, never on the ratings.

    Args:
        question: from a server that need not be trusted.
        source: the ratings. Private.
        gate: policy and record.
        backend: which kernels compute.
    """
    try:
        asked = Question.from_bytes(question)
        envelope = Envelope.to(asked.reply_key, about=asked.about)
    except RefusedError as refused:
        _note(gate, refused.code)
        return refusal(refused.code)
    try:
        return envelope.seal(_reply(asked, source, gate, backend))
    except RefusedError as refused:
        return envelope.seal(refusal(refused.code))
    except Exception:  # its text may hold data of this device
        _note(gate, Refusal.INTERNAL)
        return envelope.seal(refusal(Refusal.INTERNAL))


def _reply(question: Question, source: RatingSource, gate: Gate, backend: str) -> bytes:
    kept = gate.recall(question)
    if kept is not None:
        return kept
    with _noted(gate):
        task, requests = _asked(question, backend)
    scale = gate.admit(question, question.board, requests)
    work = _Work(task, question, requests, backend)
    with _noted(gate):
        work.require_sound()
    answer = _answer(work, source, gate, scale)
    gate.commit(question, requests, scale, answer)
    return answer


@dataclass(frozen=True, slots=True)
class _Work:
    """An admitted question; nothing of it is private."""

    task: Task
    question: Question
    requests: tuple[Request, ...]
    backend: str

    def message(self, cohort: Cohort, scales: FloatArray, form: str) -> TrustedMessage:
        """The message of some rows, checked against every bound."""
        contribution = self.task.contribute(cohort, self.question.board, self.requests)
        if not np.all(scales == 1.0):
            contribution = scale_contribution(contribution, self.requests, scales)
            require_personal_bounds(contribution, self.requests, scales)
        return Trusted(form=form, backend=self.backend).encode(contribution, self.requests)

    def require_sound(self) -> None:
        """Hold the board against an empty row, before any rating is looked at.

        Raises:
            RefusedError: not even that can be computed, which is the board's fault alone and so for everybody.
        """
        try:
            self.message(self.nothing(1), np.ones(1), self.question.form)
        except Exception:
            raise RefusedError(Refusal.BAD_BOARD) from None

    def nothing(self, n_users: int, first_row: int = 0) -> Cohort:
        """So many empty rows."""
        return Cohort(
            indptr=np.zeros(n_users + 1, dtype=np.int64),
            items=np.zeros(0, dtype=np.int32),
            ratings=np.zeros(0, dtype=np.float32),
            n_items=self.question.board.catalogue.n_items,
            first_row=first_row,
        )


def _answer(work: _Work, source: RatingSource, gate: Gate, scale: Scale) -> bytes:
    try:
        cohort = source.cohort(work.question.board)
    except Exception as error:
        gate.failed(error)
        cohort = work.nothing(source.n_users)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), (cohort.n_users,))
    try:
        message = work.message(cohort, scales, work.question.form)
    except Exception as error:
        gate.failed(error)
        message = _row_by_row(work, cohort, scales)
    return Answer(
        run=work.question.run,
        round=work.question.round,
        board_digest=work.question.board.digest,
        n_users=cohort.n_users,
        first_row=cohort.first_row,
        message=message,
    ).to_bytes(n_items=cohort.n_items)


def _row_by_row(work: _Work, cohort: Cohort, scales: FloatArray) -> TrustedMessage:
    """Each row by itself, so that one that cannot be computed is empty and changes no other."""
    rows: list[Contribution] = []
    for number in range(cohort.n_users):
        own, part = cohort.rows(number, number + 1), scales[number : number + 1]
        try:
            message = work.message(own, part, "factored")
        except Exception:
            message = work.message(work.nothing(1, own.first_row), part, "factored")
        if isinstance(message, FactoredMessage):
            rows.append(message.contribution)
    protocol = Trusted(form=work.question.form, backend=work.backend)
    return protocol.encode(joined(rows), work.requests)


def _note(gate: Gate, code: Refusal) -> None:
    with suppress(Exception):  # a count that cannot be written is no reason to say anything else
        gate.note(code)


@contextmanager
def _noted(gate: Gate) -> Iterator[None]:
    """Tell the gate of refusals that are not its own."""
    try:
        yield
    except RefusedError as refused:
        _note(gate, refused.code)
        raise


def _asked(question: Question, backend: str) -> tuple[Task, tuple[Request, ...]]:
    """The task of the board and what it asks next: the board's word, not the server's."""
    if question.protocol != Trusted.NAME or question.form not in Trusted.FORMS:
        raise RefusedError(Refusal.WRONG_FORM)
    try:
        task = rebuild_task(question.board, backend=backend)
        requests = task.requests(question.board)
    except (FedboardError, ArithmeticError, LookupError, TypeError, ValueError):
        raise RefusedError(Refusal.BAD_BOARD) from None
    if not requests:
        raise RefusedError(Refusal.WRONG_ROUND)
    return task, requests


__all__ = ["Gate", "RatingSource", "Scale", "respond"]
