"""A runtime whose replies somebody else has fetched: a strategy of Flower's, which sends and receives by itself."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Message

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.per_user.participation import Attendance
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.rounds.flower_parts import frame_of
from fedboard.common.rounds.question import Question
from fedboard.common.task import ReleasedSums
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.common.wire.sealing import ReplyKey
from fedboard.common.wire.signing import ENVELOPE_BYTES, QuestionKey
from fedboard.server.fleet.rounds.admission import Admission, Intake, fresh_question
from fedboard.server.fleet.rounds.trusted_rounds import require_drawn_by_answers, told_refusals
from fedboard.server.runtime import Gathered, NoisedSums


@dataclass(slots=True, kw_only=True)
class ReplyRuntime:
    """Sums the replies to the question that was asked last. A round is asked once, and whoever is late is lost."""

    run: str
    """Name of the run, as nodes know it."""
    protocol: Trusted
    key: QuestionKey
    """Signs what is asked."""
    quorum: int
    """Fewest nodes whose answers make a round."""
    users_per_node: int
    """Most users behind one answer."""
    private_noise: bool
    refused: Counter[Refusal] = field(default_factory=Counter)
    """How often an answer was not taken, by code, in the last round."""
    n_answers: int = 0
    """Nodes whose answer was taken in the last round."""
    _asked: tuple[Question, ReplyKey] | None = None
    _replies: list[Message] = field(default_factory=list)

    def ask(self, board: Board, *, seconds: float) -> bytes:
        """The question about a board, signed, to be answered for so many seconds."""
        question, key = fresh_question(
            board, run=self.run, protocol=self.protocol, private_noise=self.private_noise
        )
        self._asked, self._replies = (question, key), []
        return self.key.sign(question.content, seconds=seconds)

    def receive(self, replies: Sequence[Message]) -> None:
        """Take what came back to that question; it is looked at when the round is summed."""
        self._replies = list(replies)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Check the replies and sum exactly.

        Raises:
            InputError: nothing was asked about this board.
            PrivacyError: who takes part cannot be drawn among those who answer.
            TooFewAnswersError: fewer nodes than the quorum answered.
        """
        require_drawn_by_answers(requests, attendance)
        if self._asked is None or self._asked[0].board.digest != board.digest:
            raise InputError("replies are summed after a question about this very board; ask it first")
        (question, key), self._asked = self._asked, None
        admission = Admission(question=question, requests=tuple(requests), key=key)
        running = RunningSums(requests=tuple(requests), backend=self.protocol.backend)
        intake = Intake(running=running, attendance=attendance)
        self.refused.clear()
        for reply in self._replies:
            self._take(reply, admission, intake)
        self._replies, self.n_answers = [], len(admission.users)
        if self.n_answers < self.quorum:
            raise TooFewAnswersError(
                f"{self.n_answers} nodes answered round {board.version} and the quorum is {self.quorum}; nothing "
                f"was released (not taken: {told_refusals(self.refused)})"
            )
        down = len(question.content) + ENVELOPE_BYTES
        return Gathered(sums=intake.sums(), traffic=intake.traffic(down))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)

    def _take(self, reply: Message, admission: Admission, intake: Intake) -> None:
        node = str(reply.metadata.src_node_id)
        try:
            content = None if reply.has_error() else frame_of(reply.content)
            if content is None:
                raise RefusedError(Refusal.UNREACHABLE if reply.has_error() else Refusal.MALFORMED)
            answer = admission.take(node, content, max_users=self.users_per_node)
        except RefusedError as refused:
            self.refused[refused.code] += 1
            return
        intake.add(node, answer, len(content))
