"""What a client of a masked sum remembers from step to step; secrets inside."""

import msgspec

from fedboard.common.protocols.secure_sum.masking.advertised import Secrets


class Answered(msgspec.Struct, frozen=True):
    """A step that is over."""

    question: bytes
    """SHA-256 of the message."""
    reply: bytes


class Memory(msgspec.Struct):
    """All that a session is, in steps; secrets inside."""

    secrets: Secrets
    answered: list[Answered] = msgspec.field(default_factory=list)
    session: bytes = b""
    clients: int = 0
    """How many advertised keys, as the server says."""
    neighbours: list[bytes] = msgspec.field(default_factory=list)
    """What they advertised, sorted by identity."""
    held: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list)
    """A neighbour's shares of its two seeds; ``NO_SHARE`` where its box could not be opened."""
    there: list[bool] = msgspec.field(default_factory=list)
    """Which neighbours are masked with."""
    roster: bytes = b""
    """The list of devices; empty where clients are not vouched for, as all that follows."""
    places: list[int] = msgspec.field(default_factory=list)
    """Of the neighbours, on the list."""
    members: bytes = b""
    """The set of all who take part, as the server said."""
    confirmed: tuple[bytes, bytes] = (b"", b"")
    """The sets of those masked with and of survivors, as this client has signed them."""
