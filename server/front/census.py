"""Which connections are open, by the address that they come from, and which of them makes room for another."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from fedboard.server.front.limits import ConnectionLimits


class Counted(Protocol):
    """A connection, as far as it is counted."""

    network: str
    last_moved: float
    """When a byte last went over it, by the clock of the census."""

    def abort(self) -> None:
        """Close it at once."""
        ...


@dataclass(slots=True)
class Census:
    """The open connections of one port. Addresses are in memory only, as long as they have a connection."""

    limits: ConnectionLimits
    clock: Callable[[], float] = time.monotonic
    total: int = 0
    _by_network: dict[str, set[Counted]] = field(default_factory=dict)

    def admit(self, newcomer: Counted) -> bool:
        """Count a new connection, if need be in the place of one that was silent for long.

        At the limit of its address, that is one of the same address; at the limit of all, one of the address that
        has the most. So who opens connections and lets them lie takes the room of nobody but himself.

        Returns:
            Whether it was counted; if not, it is to be closed.
        """
        own = self._by_network.get(newcomer.network, set())
        if len(own) >= self.limits.of_one and not self._make_room(own):
            return False
        if self.total >= self.limits.connections:
            largest = max(self._by_network.values(), key=len)
            if not self._make_room(own if own and len(own) >= len(largest) else largest):
                return False
        self._by_network.setdefault(newcomer.network, set()).add(newcomer)
        self.total += 1
        return True

    def leave(self, connection: Counted) -> None:
        """It is closed, or about to be; to say so twice changes nothing."""
        own = self._by_network.get(connection.network, set())
        if connection in own:
            own.discard(connection)
            self.total -= 1
            if not own:
                del self._by_network[connection.network]

    def all(self) -> Iterable[Counted]:
        """Those that are open now."""
        return [one for own in self._by_network.values() for one in own]

    def _make_room(self, among: set[Counted]) -> bool:
        longest = min(among, key=lambda one: one.last_moved)
        if self.clock() - longest.last_moved < self.limits.spared_seconds:
            return False
        self.leave(longest)
        longest.abort()
        return True
