"""What the round loop says to the door, and what it hears; MessagePack, each with its length before it."""

from typing import Final

import msgspec

from fedboard.common.errors import FedboardError

LENGTH_BYTES: Final = 8
MOST_BYTES: Final = 1 << 32
"""Of one message; the other end is our own."""


class LineError(FedboardError, OSError):
    """The line is down, or what came over it is no message."""


class Present(msgspec.Struct, frozen=True, tag=True):
    """Who is there?"""


class Ask(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Have these devices asked."""

    asking: str
    """Name of the question or the step; another one than before ends what was."""
    kind: str
    frames: list[bytes]
    """What they are asked, each once."""
    beside: bytes
    """The board, where it travels beside the frames."""
    to: dict[str, int]
    """Public key, PEM text, to the number of the frame."""
    after: int
    """Number of the last answer that the round loop has."""
    largest: int
    """Most bytes of an answer."""
    seconds: float
    """How long an answer is worth anything."""


class Fetch(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What has come?"""

    asking: str
    after: int
    most_bytes: int


class End(msgspec.Struct, frozen=True, tag=True):
    """Nobody is asked any more."""


class Answered(msgspec.Struct, frozen=True):
    """One device's answer."""

    number: int
    key: str
    content: bytes


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """To each of these."""

    epoch: str
    """Another one after the door has started again: what was under way is lost."""
    present: list[str] = []
    """Public keys."""
    answers: list[Answered] = []


Said = Present | Ask | Fetch | End
ENCODER: Final = msgspec.msgpack.Encoder()
SAID: Final = msgspec.msgpack.Decoder(Said)
REPLY: Final = msgspec.msgpack.Decoder(Reply)


def framed(message: Said | Reply) -> bytes:
    """With its length before it."""
    content = ENCODER.encode(message)
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def length_of(header: bytes) -> int:
    """Of the message that follows.

    Raises:
        LineError: none is as long.
    """
    length = int.from_bytes(header, "big")
    if length > MOST_BYTES:
        raise LineError("what came over the line to the door is no message")
    return length
