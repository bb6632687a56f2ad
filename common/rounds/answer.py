"""The answer of a client to the question of a round: one message of the protocol, or a refusal.

An answer holds private rows. It is for the aggregator alone, for the time of a round.
"""

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from fedboard.common.protocols.trusted.contents import arrays_of, message_of
from fedboard.common.protocols.trusted.messages import TrustedMessage
from fedboard.common.wire.frame import Frame, pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    round: int
    board_digest: str
    form: str
    n_users: int
    n_items: int
    first_row: int


class _RefusalFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: Refusal


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """What one client gives to one round."""

    KIND: ClassVar[str] = "answer"
    REFUSAL: ClassVar[str] = "refusal"

    run: str
    round: int
    board_digest: str
    """Of the board that it was made from."""
    n_users: int
    """Number of rows behind it."""
    first_row: int
    """Number of the first row in a simulated population; 0 on a device."""
    message: TrustedMessage

    def to_bytes(self, *, n_items: int) -> bytes:
        """The message as it travels."""
        form, arrays = arrays_of(self.message)
        fields = {
            "run": self.run,
            "round": self.round,
            "board_digest": self.board_digest,
            "form": form,
            "n_users": self.n_users,
            "n_items": n_items,
            "first_row": self.first_row,
        }
        return pack_frame(self.KIND, fields, arrays)

    @classmethod
    def from_bytes(cls, content: bytes, *, limit: int) -> "Answer":
        """Read an answer. Shapes fit together; no number is within any bound yet.

        Args:
            content: from a client that need not be honest.
            limit: most bytes that are taken.

        Raises:
            RefusedError: not an answer, or a refusal, whose code it then has.
        """
        frame = unpack_frame(content, kinds=(cls.KIND, cls.REFUSAL), limit=limit)
        if frame.kind == cls.REFUSAL:
            raise refused_in(frame)
        fields = frame.read(_Fields)
        if not 0 <= fields.first_row < 2**62 or fields.n_users < 0:
            raise RefusedError(Refusal.MALFORMED)
        message = message_of(fields.form, frame.arrays, n_users=fields.n_users, n_items=fields.n_items)
        return cls(
            run=fields.run,
            round=fields.round,
            board_digest=fields.board_digest,
            n_users=fields.n_users,
            first_row=fields.first_row,
            message=message,
        )


def refusal(code: Refusal) -> bytes:
    """The message of a client that does not answer."""
    return pack_frame(Answer.REFUSAL, {"code": code.value}, {})


def refused_in(frame: Frame) -> RefusedError:
    """What a client that does not answer said.

    Raises:
        RefusedError: not even that can be read.
    """
    return RefusedError(frame.read(_RefusalFields).code)
