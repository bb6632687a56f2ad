"""How a client answers a round: whatever comes in, what goes out is an answer within its bounds or a code."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.personal import require_personal_bounds, scale_contribution
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import Task
from fedboard.common.tasks.rebuilding import rebuild_task
from fedboard.common.wire.answer import Answer, refusal
from fedboard.common.wire.question import Question
from fedboard.common.wire.refusals import Refusal, RefusedError

Scale = float | FloatArray
"""Which part is given: s in (0, 1], or one for each row, float64, shape (n_users,)."""


class RatingSource(Protocol):
    """Where a client's ratings are: one row on a phone, many at a gateway."""

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


def respond(question: bytes, *, source: RatingSource, gate: Gate, backend: str = "numpy") -> bytes:
    """Answer one question.

    Guarantee: never raises, and what it returns is an answer that was checked against every bound of the
    releases and booked by the gate, or a refusal that is a code alone.

    Args:
        question: from a server that need not be trusted.
        source: the ratings. Private.
        gate: policy and record.
        backend: which kernels compute.
    """
    try:
        return _answer(question, source, gate, backend)
    except RefusedError as refused:
        return refusal(refused.code)
    except Exception:  # its text may hold data of this device
        return refusal(Refusal.INTERNAL)


def _answer(content: bytes, source: RatingSource, gate: Gate, backend: str) -> bytes:
    question = Question.from_bytes(content)
    kept = gate.recall(question)
    if kept is not None:
        return kept
    task, requests = _asked(question, backend)
    scale = gate.admit(question, question.board, requests)
    cohort = source.cohort(question.board)
    contribution = _contribution(task, cohort, question.board, requests, scale)
    message = Trusted(form=question.form, backend=backend).encode(contribution, requests)
    answer = Answer(
        run=question.run,
        round=question.round,
        board_digest=question.board.digest,
        n_users=cohort.n_users,
        first_row=cohort.first_row,
        message=message,
    ).to_bytes(n_items=cohort.n_items)
    gate.commit(question, requests, scale, answer)
    return answer


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


def _contribution(
    task: Task, cohort: Cohort, board: Board, requests: tuple[Request, ...], scale: Scale
) -> Contribution:
    contribution = task.contribute(cohort, board, requests)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), (cohort.n_users,))
    if np.all(scales == 1.0):
        return contribution
    scaled = scale_contribution(contribution, requests, scales)
    require_personal_bounds(scaled, requests, scales)
    return scaled


__all__ = ["Gate", "RatingSource", "Scale", "respond"]
