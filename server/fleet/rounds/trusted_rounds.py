"""A runtime whose clients are nodes: the question goes out to each, answers are checked and summed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.per_user.participation import Attendance, require_unsampled
from fedboard.common.privacy.events import is_disjoint
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.rounds.question import ROUND, Question
from fedboard.common.wire.refusals import Refusal
from fedboard.common.wire.signing import ENVELOPE_BYTES
from fedboard.server.fleet.rounds.admission import Admission, Intake, fresh_question
from fedboard.server.fleet.rounds.asking import Asking, SignedMessage
from fedboard.server.fleet.rounds.over_nodes import (
    REFUSING,
    OverNodes,
    all_refuse,
    told_refusals,
    told_times,
)
from fedboard.server.runtime import Gathered


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
        admission = Admission(question=question, requests=tuple(requests), key=key)
        running = RunningSums(requests=tuple(requests), backend=self.protocol.backend)
        intake = Intake(running=running, attendance=attendance)
        refusing = self._collect(question, admission, intake)
        self.n_answers, self.bytes_up = len(admission.users), intake.bytes_up
        if refusing:
            raise TooFewAnswersError(
                f"round {board.version}: {all_refuse(refusing)} (not taken: {told_refusals(self.refused)})",
                asked=False,
            )
        self._round, self._gave = board.version, frozenset(admission.users)
        if self.n_answers < self.job.rounds.quorum:
            raise TooFewAnswersError(
                f"{self.n_answers} nodes answered round {board.version} before its deadline and the quorum is "
                f"{self.job.rounds.quorum}; nothing was released (asked {told_times(self.attempts)}, not taken: "
                f"{told_refusals(self.refused)})"
            )
        try:
            sums = intake.sums()
        except InputError as error:  # fewer users than the cohort that is to be drawn
            raise TooFewAnswersError(f"round {board.version}: {error}; nothing was released") from error
        return Gathered(sums=sums, traffic=intake.traffic(self.bytes_down))

    def _collect(self, question: Question, admission: Admission, intake: Intake) -> int:
        """Ask until the round is complete, or its time is over and asking again would not help.

        Returns:
            How many were asked, where nobody answered and the policy of each refuses; else 0.
        """
        nodes = self.roster.when_enough()

        def take(node: str, max_users: int, content: bytes) -> None:
            intake.add(node, admission.take(node, content, max_users=max_users), len(content))

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
            pace=self.pace,
            again=lambda: self._again(admission, declined),
            attempts=self.job.rounds.attempts,
            refused=self.refused,
            declined=declined,
        )
        asking.run(nodes, seconds=self.job.rounds.deadline_seconds)
        self.attempts = asking.attempt
        refusing = {name for name, code in declined.items() if code in REFUSING}
        asked = nodes.keys() | declined.keys()
        return len(asked) if not admission.users and asked <= refusing else 0

    def _again(self, admission: Admission, declined: Mapping[str, Refusal]) -> bool:
        """Whether the quorum is missing and can still come; no look at what is in the answers."""
        most = self.roster.can_answer(admission.users.keys(), declined.keys())
        return len(admission.users) < self.job.rounds.quorum <= most

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
