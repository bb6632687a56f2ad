"""A runtime whose clients are the nodes of a Flower grid: the question goes out, answers are checked and summed."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from flwr.serverapp import Grid

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.privacy.events import is_disjoint
from fedboard.common.privacy.participation import Attendance, require_unsampled
from fedboard.common.privacy.release import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.running_sums import RunningSums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.common.wire.question import Question
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.common.wire.sealing import ReplyKey
from fedboard.server.fleet.admission import Admission
from fedboard.server.fleet.exchange import Exchange, Reply
from fedboard.server.fleet.intake import Intake
from fedboard.server.fleet.job import Job
from fedboard.server.runtime import Gathered, NoisedSums

_PASSING = frozenset({Refusal.UNREACHABLE, Refusal.INTERNAL, Refusal.MALFORMED})
"""A node that failed in this way may do better when it is asked again."""
_MOST_FAILURES = 10
"""In one round, before a node that is there is given up."""
_LOOK_FOR_NODES_SECONDS = 2.0

OnProgress = Callable[[str, int, int], None]
"""(phase, nodes that have answered, nodes that are expected)."""


@dataclass(slots=True, kw_only=True)
class FleetRuntime:
    """Asks the nodes of a grid. A round is complete when all expected nodes have answered or refused; it is cut at
    its deadline, and given up below the quorum.

    Memory: see ``RunningSums``; where it is drawn who takes part, all answers of a round.
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
    _failures: Counter[str] = field(default_factory=Counter)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Ask all nodes, check what they answer, sum exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it, or that it
                depends on users' numbers.
            TooFewAnswersError: fewer nodes than the quorum, or fewer users than take part, answered in time.
        """
        if attendance is None:
            require_unsampled(requests)
        if any(is_disjoint(request.release.event()) for request in requests):
            raise PrivacyError(
                "disjoint cohorts need public numbers of users, and a fleet can only number those who answer"
            )
        key = ReplyKey()  # of this round alone: what stays on a disk cannot be opened afterwards
        question = Question(
            run=self.run,
            protocol=Trusted.NAME,
            form=self.protocol.form,
            board=board,
            private_noise=self.job.noise == "secure",
            reply_key=key.public,
        )
        self.refused.clear()
        self._failures.clear()
        admission = Admission(question=question, requests=tuple(requests), key=key)
        running = RunningSums(requests=tuple(requests), backend=self.protocol.backend)
        intake = Intake(running=running, attendance=attendance)
        self._collect(question, admission, intake)
        self.n_answers, self.bytes_up = len(admission.users), intake.bytes_up
        if self.n_answers < self.job.quorum:
            refused = ", ".join(f"{code} {count}" for code, count in sorted(self.refused.items()) if count)
            raise TooFewAnswersError(
                f"{self.n_answers} nodes answered round {board.version} before its deadline and the quorum is "
                f"{self.job.quorum}; nothing was released (not taken: {refused or 'nothing'})"
            )
        try:
            sums = intake.sums()
        except InputError as error:  # fewer users than the cohort that is to be drawn
            raise TooFewAnswersError(f"round {board.version}: {error}; nothing was released") from error
        return Gathered(sums=sums, traffic=intake.traffic(self.bytes_down))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)

    def _collect(self, question: Question, admission: Admission, intake: Intake) -> None:
        """Ask until the round is complete or its time is over; nodes may come and go meanwhile."""
        exchange = Exchange(self.grid, largest=admission.largest(self.job.most_users))
        settled = set[int]()
        present = known = self._when_enough()
        self.bytes_down = len(question.content)
        began = looked = time.monotonic()
        deadline = began + self.job.deadline_seconds
        self._ask(exchange, set(known), question, deadline)
        while True:
            for reply in exchange.replies():
                settled |= self._settled(reply, known, admission, intake)
            self._report(len(settled))
            if self._complete(admission, settled, set(present), began) or time.monotonic() >= deadline:
                break
            time.sleep(self.job.poll_seconds)
            if (now := time.monotonic()) - looked >= min(_LOOK_FOR_NODES_SECONDS, self.job.resend_seconds):
                looked, present = now, self._nodes()
                known = {**known, **present}
                recently = exchange.waiting_for(since=now - self.job.resend_seconds)
                self._ask(exchange, set(present) - settled - recently, question, deadline)
        self.refused[Refusal.LATE] += len(exchange.waiting_for() - settled)
        exchange.forget()

    def _complete(self, admission: Admission, settled: set[int], present: set[int], began: float) -> bool:
        """As many as are expected have answered; or nobody who is there will still answer, and either as many are
        settled, or the quorum has answered and nobody else came for a while.
        """
        n_answers, expected = len(admission.users), self.job.expected_nodes
        if n_answers >= expected:
            return True
        enough = len(settled) >= expected or (
            n_answers >= self.job.quorum and time.monotonic() - began >= self.job.grace_seconds
        )
        return enough and settled >= present

    def _ask(self, exchange: Exchange, nodes: set[int], question: Question, deadline: float) -> None:
        if nodes:
            seconds = max(1.0, deadline - time.monotonic())
            exchange.ask(sorted(nodes), question.content, group=str(question.round), seconds=seconds)

    def _settled(
        self, reply: Reply, known: Mapping[int, tuple[str, int]], admission: Admission, intake: Intake
    ) -> set[int]:
        """The node, where its reply settles it: an answer that counts, or a refusal that will not pass."""
        node, max_users = known[reply.node_id]
        try:
            if reply.content is None:
                raise RefusedError(reply.failure or Refusal.MALFORMED)
            answer = admission.take(node, reply.content, max_users=max_users)
        except RefusedError as refused:
            self.refused[refused.code] += 1
            lost = refused.code is Refusal.UNREACHABLE and self.job.nodes is not None
            self._failures[node] += not lost  # a device may come back; a simulated node failed
            passing = refused.code in _PASSING and self._failures[node] < _MOST_FAILURES
            return set() if passing else {reply.node_id}
        intake.add(node, answer, len(reply.content))
        return {reply.node_id}

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


__all__ = ["FleetRuntime"]
