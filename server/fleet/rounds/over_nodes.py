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
from fedboard.common.errors import PrivacyError, TooFewAnswersError
from fedboard.common.messages.question import ROUND, BookedRound
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import QuestionKey
from fedboard.common.messages.step import reply_of
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import AggregationProtocol, ExactSums
from fedboard.common.task import ReleasedSums
from fedboard.server.fleet.job import Job
from fedboard.server.fleet.rounds.asking import Asking, Nodes, Roster, SignedMessage
from fedboard.server.runtime import NoisedSums

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
            "protocol": self.protocol.name,
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
