"""What a server has booked, as it tells devices before it draws noise: a round of a run, and the ledger's head."""

from typing import ClassVar

import msgspec

from fedboard.common.wire.frame import pack_frame, unpack_frame


class BookedRound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last round of a run that a server has booked. Public."""

    KIND: ClassVar[str] = "booked"

    run: str
    """Unique among all runs, for ever."""
    round: int
    """Version of the board that it asked about; -1: none is booked."""
    head: str
    """Of the ledger, with that round."""
    by: str
    """At random, of the one time that it is told: a server that was put back may come to the same head."""

    def to_bytes(self) -> bytes:
        """The message."""
        return pack_frame(self.KIND, msgspec.structs.asdict(self), {})

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> "BookedRound":
        """Read it.

        Raises:
            RefusedError: not one.
        """
        return unpack_frame(content, kinds=(cls.KIND,), limit=1 << 12).read(cls)
