"""What the answers of a round hold: summed as it comes, or held until it is drawn who takes part."""

from dataclasses import dataclass, field

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.errors import PrivacyError
from fedboard.common.per_user.participation import Attendance
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import RunningSums
from fedboard.common.protocols.sums.row_bounds import only_rows
from fedboard.common.protocols.trusted.protocol import (
    DenseMessage,
    FactoredMessage,
    TrustedMessage,
    factored_bytes,
)
from fedboard.common.rounds.question import Answer
from fedboard.server.runtime import Traffic


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
        self._sizes.append(_sizes(answer, n_bytes))
        if self._everybody():
            self._sum(answer.message)
        else:
            self._held.append((answer.first_row, node, answer))

    def sums(self) -> ExactSums:
        """The sums of everybody who takes part.

        Raises:
            PrivacyError: it is drawn who takes part, but a cohort sent sums.
        """
        if self._held and self.attendance is not None:
            ordered = [answer for _, _, answer in sorted(self._held, key=lambda held: held[:2])]
            present = self.attendance.draw(self.n_users)
            first = 0
            for answer in ordered:
                keep = slice(first, first + answer.n_users)
                self._sum(answer.message if present is None else _kept(answer.message, present[keep]))
                first += answer.n_users
            self._held.clear()
        return self.running.sums()

    def traffic(self, bytes_down: int) -> Traffic | None:
        """What users sent and got; a user of a cohort that sent sums has her part of them."""
        return Traffic.of(np.concatenate([np.zeros(0, dtype=np.int64), *self._sizes]), bytes_down)

    def _everybody(self) -> bool:
        """Whether nobody is left out; else only the aggregator ever knows who, since all of them have answered."""
        return (
            self.attendance is None or self.attendance.participation.event_field(self.attendance.name) is None
        )

    def _sum(self, message: TrustedMessage) -> None:
        if isinstance(message, DenseMessage):
            self.running.add_sums(message.sums)
        else:
            self.running.add_rows(message.contribution)


def _kept(message: TrustedMessage, present: BoolArray) -> TrustedMessage:
    if isinstance(message, DenseMessage):
        raise PrivacyError("who takes part can only be drawn among rows; ask for the factored form")
    return FactoredMessage(only_rows(message.contribution, present))


def _sizes(answer: Answer, n_bytes: int) -> IntArray:
    if isinstance(answer.message, FactoredMessage):
        return factored_bytes(answer.message.contribution)
    return np.full(answer.n_users, n_bytes // max(answer.n_users, 1), dtype=np.int64)
