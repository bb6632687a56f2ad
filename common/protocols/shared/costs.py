"""What the cost of a session grows with: the size of a session, and amounts of what its parties do.

Seconds or bytes = sum over terms of amount x rate. The amounts are what a protocol does, as its card says;
rates are fitted to sessions that were run (``fedboard.simulations.comparing``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSize:
    """What a session's costs depend on. Public."""

    clients: int
    dropped: int
    """Clients that vanish when their contributions are asked for."""
    neighbours: int
    """Peers that a client shares masks and secrets with; 0 where there are none."""
    numbers: int
    """In the sums of the round."""
    ratings: float
    """That a client hosts."""
    width: int
    """Numbers of all releases for one item."""
    slots: int = 0
    """Items that a client's sparse message has room for; 0 where messages are not sparse."""

    @property
    def stayed(self) -> int:
        """Clients whose contributions are in the sums."""
        return self.clients - self.dropped


Terms = Mapping[str, float]
TermsOf = Callable[[SessionSize], Terms]


def added(size: SessionSize) -> Terms:
    """Server: every message is a vector of all numbers."""
    return {"session": 1.0, "client": size.stayed, "added": size.stayed * size.numbers}


def alone(size: SessionSize) -> Terms:
    """Client: one that knows of no other."""
    return {"client": 1.0, "number": size.numbers}
