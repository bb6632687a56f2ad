"""What is booked is told to the devices before noise is drawn, and they say what they were told before.

A state folder that is copied and put back lacks what was released since, and nothing on the same disk shows it:
that comes back with the copy. So devices keep it, each the last round that this server has signed as booked.
"""

import secrets
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from fedboard.common.errors import PrivacyError, TooFewAnswersError
from fedboard.common.rounds.question import ROUND, BookedRound
from fedboard.common.rounds.step import reply_of
from fedboard.common.wire.refusals import RefusedError
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.rounds.asking import Asking, Pace, Roster, SignedMessage

BEHIND: Final = "this server is behind its devices"
"""How the sentence begins with which such a run ends."""
_LARGEST_REPLY = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedRounds:
    """Of one run.

    Guarantee: private noise of a round is drawn only when as many of those who gave as the quorum have it on their
    disk that the round is booked: none of them gives to that round or an earlier one again. Whoever holds a later
    round, signed by this server, stops it; a device that lies cannot, since it cannot sign.
    Not guaranteed: that a server which was put back meets one of those devices. Only one that does is stopped.
    """

    roster: Roster
    key: QuestionKey
    run: str
    pace: Pace

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
        if self._tell(number, head) < self.roster.job.rounds.quorum:
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
        confirmed, quorum = self._tell(number, head, gave), self.roster.job.rounds.quorum
        if confirmed < quorum:
            raise TooFewAnswersError(
                f"round {number}: {confirmed} of those who gave have confirmed that it is booked and the "
                f"quorum is {quorum}; no noise was drawn",
                given=True,
            )

    @property
    def _matters(self) -> bool:
        """Simulated nodes keep nothing, and seeded noise is the same each time."""
        return not self.roster.job.is_simulated and self.roster.job.privacy.noise == "secure"

    def _tell(self, number: int, head: str, gave: Collection[str] | None = None) -> int:
        """How many keep it now, of those who gave; all who are there are told."""
        pace, kept = self.roster.job.rounds, set[str]()
        booked = BookedRound(run=self.run, round=number, head=head, by=secrets.token_hex(16))
        exchange = self.roster.nodes.exchange(largest=_LARGEST_REPLY)
        signed = SignedMessage(key=self.key, message=booked.to_bytes())

        def send(asked: list[str], seconds: float) -> None:
            frames = dict.fromkeys(asked, signed.lasting(seconds))
            exchange.send(frames, beside=None, kind=ROUND, seconds=seconds)

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
            exchange=exchange,
            send=send,
            take=take,
            complete=complete,
            pace=self.pace,
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
