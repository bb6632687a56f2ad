"""Rounds over nodes: what they have in common, whatever their protocol, and those under ``trusted``.

What is booked is told to the devices before noise is drawn, and they say what they were told before: a state folder
that is copied and put back lacks what was released since, and nothing on the same disk shows it: that comes back
with the copy. So devices keep it, each the last round that this server has signed as booked.
"""

import secrets
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance, require_unsampled
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.messages.question import ROUND, BookedRound, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import ENVELOPE_BYTES, QuestionKey
from fedboard.common.messages.step import reply_of
from fedboard.common.privacy.events import is_disjoint
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import AggregationProtocol, ExactSums
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.server.fleet.job import Job
from fedboard.server.fleet.rounds.admission import Admission, Intake, fresh_question
from fedboard.server.fleet.rounds.asking import Asking, Nodes, Roster, SignedMessage
from fedboard.server.runtime import Gathered, NoisedSums

BEHIND: Final = "this server is behind its devices"
"""How the sentence begins with which such a run ends."""
_LARGEST_REPLY = 1 << 13
LASTING: Final = frozenset(
    {
        Refusal.NOT_ALLOWED,
        Refusal.OVER_LIMIT,
        Refusal.NOT_PRIVATE,
        Refusal.OTHER_ADJACENCY,
        Refusal.SINGLES_OUT,
        Refusal.BAD_PROTOCOL,
        Refusal.TOO_FEW,
        Refusal.OTHER_HELPER,
        Refusal.OTHER_ROSTER,
    }
)
"""What a node's policy says of a run it says of all its rounds; in a later round it would only drop out again."""
REFUSING: Final = LASTING | {
    Refusal.UNSIGNED,
    Refusal.BAD_SIGNATURE,
    Refusal.EXPIRED,
    Refusal.WRONG_VERSION,
    Refusal.NOT_PUBLISHED,
    Refusal.NOT_WITNESSED,
}
"""Whoever says this gives nothing to the round."""


@dataclass(slots=True, kw_only=True)
class OverNodes:
    """A runtime of one run whose clients are nodes.

    Guarantee: private noise of a round is drawn only when as many of those who gave as the quorum have it on their
    disk that the round is booked: none of them gives to that round or an earlier one again. Whoever holds a later
    round, signed by this server, stops it; a device that lies cannot, since it cannot sign.
    Not guaranteed: that a server which was put back meets one of those devices. Only one that does is stopped.
    """

    nodes: Nodes
    job: Job
    key: QuestionKey
    """Signs what is asked."""
    run: str
    protocol: AggregationProtocol
    shown: Callable[[Board], None] = lambda _: None
    """Waits until readers can have this board: devices that check what is published would refuse before."""
    refused: Counter[Refusal] = field(default_factory=Counter)
    """How often an answer was not taken, by code, in the last round."""
    n_answers: int = 0
    """Nodes whose answer was taken in the last round."""
    bytes_up: int = 0
    """Of all answers that were taken in the last round."""
    bytes_down: int = 0
    """To one node in the last round."""
    attempts: int = 0
    """How often the last round was asked."""
    roster: Roster = field(init=False)
    """Of the whole run: it knows who was admitted when the round began."""
    _round: int = -1
    _gave: frozenset[str] = frozenset()
    """Nodes whose answers are in the sums of this round."""

    def __post_init__(self) -> None:
        """Make the roster."""
        self.roster = Roster(self.nodes, self.job)

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for, once the devices keep that they are."""
        last = max((one.receipt for one in booked.values()), key=lambda receipt: receipt.seq)
        self.confirm(self._round, last.hash, self._gave)
        return NoisedSums(sums=sums, requests=requests, booked=booked)

    def told(self) -> dict[str, Any]:
        """What the log says of the last round."""
        return {
            "answers": self.n_answers,
            "refused": {code.value: count for code, count in sorted(self.refused.items()) if count},
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "attempts": self.attempts,
        }

    def require_newest(self, number: int, head: str) -> None:
        """Before anything is asked or published by this process: hear from a quorum that none was told of more.

        Args:
            number: last round that the ledger here has.
            head: of the ledger.

        Raises:
            PrivacyError: a device was told of a later one.
            TooFewAnswersError: fewer than the quorum said anything; nobody was asked for an answer.
        """
        if not self._matters:
            return
        self.roster.when_enough()
        if self._tell(number, head) < self.job.rounds.quorum:
            raise TooFewAnswersError(
                "too few devices said which rounds they were told of; nobody was asked, and nothing was spent",
                asked=False,
            )

    def confirm(self, number: int, head: str, gave: Collection[str]) -> None:
        """After a round is booked and before its noise is drawn: have the devices keep it.

        Who gave is waited for as long as enough of them are members and do not fail: what they gave is paid for.

        Args:
            number: the round.
            head: of the ledger with it.
            gave: nodes whose answers are in its sums.

        Raises:
            PrivacyError: a device was told of a later one, or of this one with another ledger.
            TooFewAnswersError: fewer of those who gave than the quorum have confirmed it.
        """
        if not self._matters:
            return
        confirmed, quorum = self._tell(number, head, gave), self.job.rounds.quorum
        if confirmed < quorum:
            raise TooFewAnswersError(
                f"round {number}: {confirmed} of those who gave have confirmed that it is booked and the "
                f"quorum is {quorum}; no noise was drawn",
                given=True,
            )

    @property
    def _matters(self) -> bool:
        """Simulated nodes keep nothing, and seeded noise is the same each time."""
        return not self.job.is_simulated and self.job.privacy.noise == "secure"

    def _tell(self, number: int, head: str, gave: Collection[str] | None = None) -> int:
        """How many keep it now, of those who gave; all who are there are told."""
        pace, kept = self.job.rounds, set[str]()
        booked = BookedRound(run=self.run, round=number, head=head, by=secrets.token_hex(16))
        signed = SignedMessage(key=self.key, message=booked.to_bytes())

        def take(node: str, _: int, content: bytes) -> None:
            held = reply_of(content, limit=_LARGEST_REPLY)
            self._require_not_behind(held, booked, starting=gave is None)
            if gave is None or node in gave:
                kept.add(node)

        def complete(settled: set[str], present: set[str], seconds: float) -> bool:
            return len(kept) >= pace.quorum and (settled >= present or seconds >= pace.grace_seconds)

        def again() -> bool:
            may = [n for n in gave or () if self.roster.admits(n) and n not in asking.declined]
            return len(kept) < pace.quorum and (gave is None or len(may) >= pace.quorum)

        asking = Asking(
            roster=self.roster,
            kind=ROUND,
            message=lambda _: signed,
            largest=_LARGEST_REPLY,
            take=take,
            complete=complete,
            again=again,
            attempts=pace.attempts if gave is None else sys.maxsize,
        )
        asking.run(self.roster.present(), seconds=pace.deadline_seconds)
        return len(kept)

    def _require_not_behind(self, held: bytes, booked: BookedRound, *, starting: bool) -> None:
        """What a device was told before, where this server has signed it; anything else says nothing.

        Of a round that the ledger here has, noise is not drawn again when this process has not booked it: so who
        has booked it matters only when noise is to be drawn.
        """
        try:
            found = BookedRound.from_bytes(self.key.public.once_signed(held))
        except RefusedError:  # nothing, or signed by a key that was replaced since
            return
        forked = not starting and found.round == booked.round and found != booked
        if found.run == booked.run and (found.round > booked.round or forked):
            raise PrivacyError(
                f"{BEHIND}: one of them was told that round {found.round} of {found.run} is booked, and the ledger "
                "here does not have it. This state is older than what was released, as a copy is. "
                "Nothing was released now. Put the newest state folder back, or restore a backup with fedboard "
                "fleet restore"
            )


def all_refuse(number: int) -> str:
    """Nobody gave anything, and nobody will before somebody changes something."""
    return (
        f"all {number} nodes that were asked refuse; nobody gave anything, and nothing is spent by this round"
    )


def told_refusals(refused: Mapping[Refusal, int]) -> str:
    """The same for a sentence."""
    return ", ".join(f"{code} {count}" for code, count in sorted(refused.items()) if count) or "nothing"


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
            times = "once" if self.attempts == 1 else f"{self.attempts} times"
            raise TooFewAnswersError(
                f"{self.n_answers} nodes answered round {board.version} before its deadline and the quorum is "
                f"{self.job.rounds.quorum}; nothing was released (asked {times}, not taken: "
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
