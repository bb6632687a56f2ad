"""Which answers count: of a known node, to this question, once, no larger than agreed, and of sane shape.

What those hold: summed as it comes, or held until it is drawn who takes part.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.errors import InputError
from fedboard.common.messages.question import FORM, Answer, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey, is_sealed
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.protocols.sums.row_bounds import asked_rows, only_rows
from fedboard.common.protocols.trusted import Trusted, factored_bytes
from fedboard.server.runtime import Traffic

_SLACK_BYTES = 1 << 16


def fresh_question(
    board: Board, *, run: str, protocol: Trusted, private_noise: bool
) -> tuple[Question, ReplyKey]:
    """What a round asks about a board, and the key of this round alone that replies are sealed to: once it is
    forgotten, what stays of them on a disk cannot be opened.
    """
    key = ReplyKey()
    question = Question(
        run=run,
        protocol=Trusted.NAME,
        form=FORM,
        board=board,
        private_noise=private_noise,
        reply_key=key.public,
    )
    return question, key


@dataclass(slots=True, kw_only=True)
class Admission:
    """Which answers of one round were taken, by node."""

    question: Question
    requests: tuple[Request, ...]
    key: ReplyKey
    """That the question asks to seal replies to."""
    users: dict[str, int] = field(default_factory=dict)
    """Rows behind the answer of each node that was taken. Private."""

    def take(self, node: str, content: bytes, *, max_users: int) -> Answer:
        """Take the answer of a node.

        Args:
            node: its authenticated identity.
            content: what it sent.
            max_users: most users that it may host.

        Returns:
            The answer. Private.

        Raises:
            RefusedError: the answer does not count; nothing has changed.
        """
        if node in self.users:
            raise RefusedError(Refusal.DUPLICATE)
        answer = self._opened(content, limit=self.largest(max_users))
        if answer.run != self.question.run:
            raise RefusedError(Refusal.WRONG_RUN)
        if answer.round != self.question.round:
            raise RefusedError(Refusal.WRONG_ROUND)
        if answer.board_digest != self.question.board.digest:
            raise RefusedError(Refusal.WRONG_BOARD)
        if answer.n_users > max_users:
            raise RefusedError(Refusal.TOO_MANY_USERS)
        answer = self._fitting(answer)
        self.users[node] = answer.n_users
        return answer

    def _opened(self, content: bytes, *, limit: int) -> Answer:
        """The answer; only a refusal, which says nothing of anybody, may come as it is."""
        if len(content) > limit:
            raise RefusedError(Refusal.TOO_LARGE)
        sealed = is_sealed(content)
        frame = self.key.open(content, about=self.question.about) if sealed else content
        answer = Answer.from_bytes(frame, limit=limit)
        if not sealed:
            raise RefusedError(Refusal.MALFORMED)
        return answer

    def _fitting(self, answer: Answer) -> Answer:
        """The answer with what was asked for and nothing else, in the shapes that were asked for."""
        if answer.rows.n_items != self.question.board.catalogue.n_items:
            raise RefusedError(Refusal.WRONG_BOARD)
        try:
            return replace(answer, rows=asked_rows(answer.rows, self.requests))
        except InputError:
            raise RefusedError(Refusal.MALFORMED) from None

    def largest(self, max_users: int) -> int:
        """Most bytes of an answer of so many users who rated every item."""
        n_items = self.question.board.catalogue.n_items
        per_row = (
            16 * n_items + 8 * sum(r.release.width for r in self.requests if not r.source.per_item) + 2048
        )
        return max_users * per_row + _SLACK_BYTES


@dataclass(slots=True, kw_only=True)
class Intake:
    """The contents of one round's answers. Private."""

    running: RunningSums
    attendance: Attendance | None
    n_users: int = 0
    """Rows so far."""
    bytes_up: int = 0
    """Of all answers so far."""
    _held: list[tuple[int, str, Answer]] = field(default_factory=list)
    _sizes: list[IntArray] = field(default_factory=list)

    def add(self, node: str, answer: Answer, n_bytes: int) -> None:
        """Take an answer that was admitted.

        Args:
            node: who gave it.
            answer: private.
            n_bytes: what it took on the wire.
        """
        self.n_users += answer.n_users
        self.bytes_up += n_bytes
        self._sizes.append(factored_bytes(answer.rows))
        drawn = self.attendance  # who is left out is known to the aggregator alone, once all have answered
        if drawn is None or drawn.participation.event_field(drawn.name) is None:
            self.running.add_rows(answer.rows)
        else:
            self._held.append((answer.first_row, node, answer))

    def sums(self) -> ExactSums:
        """The sums of everybody who takes part."""
        if self._held and self.attendance is not None:
            ordered = [answer for _, _, answer in sorted(self._held, key=lambda held: held[:2])]
            present = self.attendance.draw(self.n_users)
            first = 0
            for answer in ordered:
                keep = slice(first, first + answer.n_users)
                self.running.add_rows(
                    answer.rows if present is None else only_rows(answer.rows, present[keep])
                )
                first += answer.n_users
            self._held.clear()
        return self.running.sums()

    def traffic(self, bytes_down: int) -> Traffic | None:
        """What users sent and got."""
        return Traffic.of(np.concatenate([np.zeros(0, dtype=np.int64), *self._sizes]), bytes_down)
