"""A runtime whose clients are the nodes of a Flower grid: the question goes out, answers are checked and summed."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.serverapp import Grid

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.participation import Attendance, require_unsampled
from fedboard.common.privacy.release import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.joining import only_rows
from fedboard.common.protocols.trusted import (
    DenseMessage,
    FactoredMessage,
    Trusted,
    TrustedMessage,
    factored_bytes,
)
from fedboard.common.task import ReleasedSums
from fedboard.common.wire.answer import Answer
from fedboard.common.wire.question import Question
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.server.fleet.admission import Admission
from fedboard.server.fleet.exchange import Exchange, Reply
from fedboard.server.fleet.job import Job
from fedboard.server.runtime import Gathered, NoisedSums, TooFewAnswersError, Traffic

_PASSING = frozenset({Refusal.UNREACHABLE, Refusal.INTERNAL, Refusal.MALFORMED})
"""A node that failed in this way may do better when it is asked again."""
_LOOK_FOR_NODES_SECONDS = 2.0

OnProgress = Callable[[str, int, int], None]
"""(phase, nodes that have answered, nodes that are expected)."""


@dataclass(slots=True, kw_only=True)
class FleetRuntime:
    """Asks the nodes of a grid. A round is complete when all expected nodes have answered or refused; it is cut at
    its deadline, and given up below the quorum.

    Memory: the answers of a round, as they came, and once more joined while they are summed.
    """

    grid: Grid
    job: Job
    run: str
    protocol: Trusted
    on_progress: OnProgress | None = None
    refused: Counter[Refusal] = field(default_factory=Counter)
    """How often an answer was not taken, by code, in the last round."""
    n_answers: int = 0
    """Nodes whose answer was taken in the last round."""
    bytes_up: int = 0
    """Of all answers that were taken in the last round."""
    bytes_down: int = 0
    """Of one question of the last round."""

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Ask all nodes, check what they answer, sum exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it.
            TooFewAnswersError: fewer nodes than the quorum answered before the deadline.
        """
        if attendance is None:
            require_unsampled(requests)
        question = Question(run=self.run, protocol=Trusted.NAME, form=self.protocol.form, board=board)
        self.refused.clear()
        admission = Admission(question=question, requests=tuple(requests), refused=self.refused)
        self._collect(question, admission)
        self.n_answers = len(admission.answers)
        if self.n_answers < self.job.quorum:
            raise TooFewAnswersError(
                f"{self.n_answers} nodes answered round {board.version} before its deadline and the quorum is "
                f"{self.job.quorum}; nothing was released"
            )
        answers = sorted(admission.answers.items(), key=lambda named: (named[1].first_row, named[0]))
        messages = _of_those_present([answer for _, answer in answers], admission.n_users, attendance)
        sums = self.protocol.combine(messages, requests)
        return Gathered(
            sums=sums, traffic=_traffic(messages, admission.n_users, self.bytes_up, self.bytes_down)
        )

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)

    def _collect(self, question: Question, admission: Admission) -> None:
        """Ask until the round is complete or its time is over; nodes may come and go meanwhile."""
        exchange, settled = Exchange(self.grid), set[int]()
        known = self._when_enough()
        self.bytes_up, self.bytes_down = 0, len(question.content)
        began = looked = time.monotonic()
        deadline = began + self.job.deadline_seconds
        self._ask(exchange, set(known), question, deadline)
        while not self._complete(admission, settled, set(known), began) and time.monotonic() < deadline:
            for reply in exchange.replies():
                self._settle(reply, known, admission, settled)
            self._report(len(settled))
            if len(settled) >= self.job.expected_nodes:
                break
            time.sleep(self.job.poll_seconds)
            if (now := time.monotonic()) - looked >= _LOOK_FOR_NODES_SECONDS:
                looked, known = now, {**known, **self._nodes()}
                recently = exchange.waiting_for(since=now - self.job.resend_seconds)
                self._ask(exchange, set(self._nodes()) - settled - recently, question, deadline)
        self.refused[Refusal.LATE] += len(exchange.waiting_for() - settled)
        exchange.forget()

    def _complete(self, admission: Admission, settled: set[int], known: set[int], began: float) -> bool:
        """All expected nodes are settled; or the quorum has answered and nobody else came for a while."""
        if len(settled) >= self.job.expected_nodes:
            return True
        patient = time.monotonic() - began < self.job.grace_seconds
        return not patient and len(admission.answers) >= self.job.quorum and settled >= known

    def _ask(self, exchange: Exchange, nodes: set[int], question: Question, deadline: float) -> None:
        if nodes:
            seconds = max(1.0, deadline - time.monotonic())
            exchange.ask(sorted(nodes), question.content, group=str(question.round), seconds=seconds)

    def _settle(
        self, reply: Reply, known: Mapping[int, tuple[str, int]], admission: Admission, settled: set[int]
    ) -> None:
        """Count one reply: as an answer, or by the code of its refusal."""
        node, max_users = known[reply.node_id]
        try:
            if reply.content is None:
                raise RefusedError(reply.failure or Refusal.MALFORMED)
            admission.take(node, reply.content, max_users=max_users)
            self.bytes_up += len(reply.content)
        except RefusedError as refused:
            self.refused[refused.code] += 1
            if refused.code in _PASSING:
                return
        settled.add(reply.node_id)

    def _nodes(self) -> dict[int, tuple[str, int]]:
        """The nodes that are there: node id -> identity, most users. Nodes that were not admitted are not asked."""
        admitted = self.job.nodes
        if admitted is None:
            return {node: (f"{node:020d}", self.job.largest_cohort) for node in self.grid.get_node_ids()}
        keys = {node.node_id: node.public_key.decode(errors="replace") for node in self.grid.get_nodes()}
        return {node: (key, admitted[key]) for node, key in keys.items() if key in admitted}

    def _when_enough(self) -> dict[int, tuple[str, int]]:
        """The nodes, once the expected number is there, or the quorum and nobody more for a while: nodes still
        register when a run starts, and some come late.
        """
        began = time.monotonic()
        while len(nodes := self._nodes()) < self.job.expected_nodes:
            waited = time.monotonic() - began
            enough = len(nodes) >= self.job.quorum and waited >= self.job.grace_seconds
            if enough or waited >= self.job.deadline_seconds:
                break
            time.sleep(self.job.poll_seconds)
        return nodes

    def _report(self, done: int) -> None:
        if self.on_progress is not None:
            self.on_progress("nodes", done, self.job.expected_nodes)


def _of_those_present(
    answers: Sequence[Answer], n_users: int, attendance: Attendance | None
) -> list[TrustedMessage]:
    """The messages without the rows of users whose coin says no; only the aggregator ever knows the coins."""
    present = None if attendance is None else attendance.draw(n_users)
    if present is None:
        return [answer.message for answer in answers]
    messages: list[TrustedMessage] = []
    first = 0
    for answer in answers:
        if not isinstance(answer.message, FactoredMessage):
            raise PrivacyError("who takes part can only be drawn among rows; ask for the factored form")
        keep = present[first : first + answer.n_users]
        messages.append(FactoredMessage(only_rows(answer.message.contribution, keep)))
        first += answer.n_users
    return messages


def _traffic(
    messages: Sequence[TrustedMessage], n_users: int, bytes_up: int, bytes_down: int
) -> Traffic | None:
    """Per user: what her rows take, or her part of what her cohort sent."""
    if any(isinstance(message, DenseMessage) for message in messages):
        return Traffic.of(np.full(max(n_users, 1), bytes_up // max(n_users, 1), dtype=np.int64), bytes_down)
    sizes = [factored_bytes(m.contribution) for m in messages if isinstance(m, FactoredMessage)]
    return Traffic.of(np.concatenate([*sizes, np.zeros(0, dtype=np.int64)]), bytes_down)


__all__ = ["FleetRuntime"]
