"""Rounds under ``trusted``: which answers count, and what they add up to.

An answer is taken of a known node, to this question, once, no larger than agreed, and of sane shape. It is summed
as it comes, or held until it is drawn who takes part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance, require_unsampled
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.messages.question import FORM, ROUND, Answer, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey, is_sealed
from fedboard.common.messages.signing import ENVELOPE_BYTES
from fedboard.common.privacy.events import is_disjoint
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.protocols.sums.row_bounds import asked_rows, only_rows
from fedboard.common.protocols.trusted import Trusted, factored_bytes
from fedboard.server.fleet.rounds.asking import Asking, SignedMessage
from fedboard.server.fleet.rounds.over_nodes import REFUSING, OverNodes, all_refuse, told_refusals
from fedboard.server.runtime import Gathered, Traffic

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
    """The answers of one round that were taken, by node, and their sums. Private."""

    question: Question
    requests: tuple[Request, ...]
    key: ReplyKey
    """That the question asks to seal replies to."""
    attendance: Attendance | None = None
    backend: str = "numpy"
    """Kernels."""
    users: dict[str, int] = field(default_factory=dict)
    """Rows behind the answer of each node that was taken."""
    bytes_up: int = 0
    """Of all these answers."""
    _running: RunningSums = field(init=False)
    _held: list[tuple[int, str, Answer]] = field(default_factory=list)
    """Answers to be summed once it is drawn who takes part."""
    _sizes: list[IntArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin the sums."""
        self._running = RunningSums(requests=self.requests, backend=self.backend)

    def take(self, node: str, content: bytes, *, max_users: int) -> Answer:
        """Take the answer of a node, and add it to the sums.

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
        if answer.rows.n_items != self.question.board.catalogue.n_items:
            raise RefusedError(Refusal.WRONG_BOARD)
        try:  # what was asked for and nothing else, in the shapes that were asked for
            answer = replace(answer, rows=asked_rows(answer.rows, self.requests))
        except InputError:
            raise RefusedError(Refusal.MALFORMED) from None
        self.users[node] = answer.n_users
        self.bytes_up += len(content)
        self._sizes.append(factored_bytes(answer.rows))
        drawn = self.attendance  # who is left out is known to the aggregator alone, once all have answered
        if drawn is None or drawn.participation.event_field(drawn.name) is None:
            self._running.add_rows(answer.rows)
        else:
            self._held.append((answer.first_row, node, answer))
        return answer

    def sums(self) -> ExactSums:
        """The sums of everybody who takes part."""
        if self._held and self.attendance is not None:
            present, first = self.attendance.draw(sum(self.users.values())), 0
            for _, _, answer in sorted(self._held, key=lambda held: held[:2]):
                keep = slice(first, first + answer.n_users)
                rows = answer.rows if present is None else only_rows(answer.rows, present[keep])
                self._running.add_rows(rows)
                first += answer.n_users
            self._held.clear()
        return self._running.sums()

    def traffic(self, bytes_down: int) -> Traffic | None:
        """What users sent and got."""
        return Traffic.of(np.concatenate([np.zeros(0, dtype=np.int64), *self._sizes]), bytes_down)

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

    def largest(self, max_users: int) -> int:
        """Most bytes of an answer of so many users who rated every item."""
        n_items = self.question.board.catalogue.n_items
        per_row = (
            16 * n_items + 8 * sum(r.release.width for r in self.requests if not r.source.per_item) + 2048
        )
        return max_users * per_row + _SLACK_BYTES


@dataclass(slots=True, kw_only=True)
class FleetRuntime(OverNodes):
    """Asks nodes, once a quorum of them is there. A round is complete when all expected nodes
    have answered or refused; it is cut at its deadline. Below the quorum the same question is asked again, so that
    devices send the answers that they kept; what has come stays. After ``rounds.attempts`` times it is given up.

    Memory: see ``RunningSums``; where it is drawn who takes part, all answers of a round.
    """

    protocol: Trusted

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Ask all nodes, check what they answer, sum exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it, or that it
                depends on users' numbers.
            TooFewAnswersError: fewer nodes than the quorum, or fewer users than take part, answered in time; or
                fewer than the quorum were there, so that nobody was asked.
        """
        self.shown(board)
        self.refused.clear()
        self.n_answers = self.bytes_up = self.bytes_down = self.attempts = 0
        require_drawn_by_answers(requests, attendance)
        is_private = self.job.privacy.noise == "secure"
        question, key = fresh_question(board, run=self.run, protocol=self.protocol, private_noise=is_private)
        admission = Admission(
            question=question,
            requests=tuple(requests),
            key=key,
            attendance=attendance,
            backend=self.protocol.backend,
        )
        refusing = self._collect(question, admission)
        self.n_answers, self.bytes_up = len(admission.users), admission.bytes_up
        if refusing:
            raise TooFewAnswersError(
                f"round {board.version}: {all_refuse(refusing)} (not taken: {told_refusals(self.refused)})",
                asked=False,
            )
        self._round, self._gave = board.version, frozenset(admission.users)
        if self.n_answers < self.job.rounds.quorum:
            times = "once" if self.attempts == 1 else f"{self.attempts} times"
            raise TooFewAnswersError(
                f"{self.n_answers} nodes answered round {board.version} before its deadline and the quorum is "
                f"{self.job.rounds.quorum}; nothing was released (asked {times}, not taken: "
                f"{told_refusals(self.refused)})"
            )
        try:
            sums = admission.sums()
        except InputError as error:  # fewer users than the cohort that is to be drawn
            raise TooFewAnswersError(f"round {board.version}: {error}; nothing was released") from error
        return Gathered(sums=sums, traffic=admission.traffic(self.bytes_down))

    def _collect(self, question: Question, admission: Admission) -> int:
        """Ask until the round is complete, or its time is over and asking again would not help.

        Returns:
            How many were asked, where nobody answered and the policy of each refuses; else 0.
        """
        nodes = self.roster.when_enough()

        def take(node: str, max_users: int, content: bytes) -> None:
            admission.take(node, content, max_users=max_users)

        def may_help() -> bool:  # the quorum is missing and can still come; no look at what is in the answers
            most = self.roster.can_answer(admission.users.keys(), declined.keys())
            return len(admission.users) < self.job.rounds.quorum <= most

        signed = SignedMessage(key=self.key, message=question.content)
        self.bytes_down = len(question.content) + ENVELOPE_BYTES
        declined: dict[str, Refusal] = {}
        asking = Asking(
            roster=self.roster,
            kind=ROUND,
            message=lambda _: signed,
            largest=admission.largest(self.job.most_users),
            take=take,
            complete=lambda settled, present, seconds: self._complete(admission, settled, present, seconds),
            again=may_help,
            attempts=self.job.rounds.attempts,
            refused=self.refused,
            declined=declined,
        )
        asking.run(nodes, seconds=self.job.rounds.deadline_seconds)
        self.attempts = asking.attempt
        refusing = {name for name, code in declined.items() if code in REFUSING}
        asked = nodes.keys() | declined.keys()
        return len(asked) if not admission.users and asked <= refusing else 0

    def _complete(self, admission: Admission, settled: set[str], present: set[str], seconds: float) -> bool:
        """As many as are expected have answered or refused, or the quorum has answered and nobody else came for a
        while; and of those who are there nobody will still answer, or as many as are expected have answered and the
        others had a while.
        """
        pace, n_answers = self.job.rounds, len(admission.users)
        waited = seconds >= pace.grace_seconds
        if settled >= present:
            return len(settled) >= pace.expected_nodes or (waited and n_answers >= pace.quorum)
        return waited and n_answers >= pace.expected_nodes


def require_drawn_by_answers(requests: Sequence[Request], attendance: Attendance | None) -> None:
    """See that who takes part can be drawn among those who answer.

    Raises:
        PrivacyError: the requests state who takes part and there is no attendance that draws it, or it depends on
            users' numbers.
    """
    if attendance is None:
        require_unsampled(requests)
    if any(is_disjoint(request.release.event()) for request in requests):
        raise PrivacyError(
            "disjoint cohorts need public numbers of users, and a fleet can only number those who answer"
        )
