"""A gate that is open: for simulated people, who have nothing to keep account of."""

from collections.abc import Sequence

from fedboard.client.answering.asker import Asker
from fedboard.client.answering.contributing import Scale
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.rounds.question import BookedRound, Question
from fedboard.common.wire.refusals import Refusal


class OpenGate:
    """Answers everything that its one server asks and keeps no record: the run's own ledger counts for all.

    A device of somebody has a ``fedboard.client.device.gate`` instead, with a policy, a limit and a ledger.
    """

    asker: Asker
    """Whose questions are answered; whoever derives from this has it."""

    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        """Nothing is kept: what is asked again is worked out again, to the same bytes."""
        return None

    def repeat(self, question: Question, requests: Sequence[Request]) -> None:
        """Whatever was given in a session is given again."""

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        """All of everything."""
        return 1.0

    def commit(
        self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes | None
    ) -> None:
        """Nothing to book."""

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        """Nothing is kept."""
        return b""

    def note(self, code: Refusal) -> None:
        """The server counts."""
