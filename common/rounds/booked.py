"""What a server has booked, as it tells devices before it draws noise: a round of a run, and the ledger's head."""

from dataclasses import asdict, dataclass
from typing import ClassVar

import msgspec

from fedboard.common.wire.frame import pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    round: int
    head: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedRound:
    """The last round of a run that a server has booked. Public."""

    KIND: ClassVar[str] = "booked"
    MAX_BYTES: ClassVar[int] = 1 << 12

    run: str
    """Unique among all runs, for ever."""
    round: int
    """Version of the board that it asked about; -1: none is booked."""
    head: str
    """Of the ledger, with that round."""
    by: str
    """Which process of the server says it, at random: one that was put back may come to the same head."""

    def to_bytes(self) -> bytes:
        """The message."""
        return pack_frame(self.KIND, asdict(self), {})

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> "BookedRound":
        """Read it.

        Raises:
            RefusedError: not one.
        """
        frame = unpack_frame(content, kinds=(cls.KIND,), limit=cls.MAX_BYTES)
        fields = frame.read(_Fields)
        if frame.arrays or fields.round < -1:
            raise RefusedError(Refusal.MALFORMED)
        return cls(**msgspec.structs.asdict(fields))
