"""One connection from outside, handed on to what serves inside: bytes as they are, and when they last moved."""

import asyncio
import time
from collections.abc import Callable
from typing import cast

from fedboard.server.front.limits import ConnectionLimits

_BUFFERED_BYTES = 1 << 18
"""Waiting for the slower end, before the faster one is no longer read."""


class Relay:
    """The two ends of one connection. All of it runs in the event loop."""

    def __init__(self, network: str, *, gone: "Callable[[Relay], None]") -> None:
        """A connection that nobody has made yet.

        Args:
            network: where it comes from.
            gone: is told when it is closed.
        """
        self.network, self.last_moved = network, time.monotonic()
        self.outside, self.inside = End(self), End(self)
        self.inside_port = 0
        """Of the inner connection's near end, by which what serves inside names this connection."""
        self._gone, self._began = gone, self.last_moved
        self._window: tuple[float, int] | None = None
        """When bytes began to wait for the other end, and how many it had taken then."""

    def moved(self) -> None:
        """A byte went over it."""
        self.last_moved = time.monotonic()

    def abort(self) -> None:
        """Close both ends at once; what waits is dropped."""
        for end in (self.outside, self.inside):
            if end.transport is not None:
                end.transport.abort()

    def ended(self) -> None:
        """One end is closed: what waits for the other goes out, then it is closed too."""
        for end in (self.outside, self.inside):
            if end.transport is not None and not end.lost:
                end.transport.close()
        if self.outside.lost and (self.inside.lost or self.inside.transport is None):
            self._gone(self)

    def is_overdue(self, now: float, limits: ConnectionLimits) -> bool:
        """Whether it is silent for too long, or its other end takes too little of what waits for it."""
        if not self.outside.received and now - self._began > limits.handshake_seconds:
            return True
        if now - self.last_moved > limits.idle_seconds:
            return True
        waiting = self.outside.waiting
        if not waiting:
            self._window = None
            return False
        taken = self.outside.written - waiting
        since, before = self._window or (now, taken)
        if now - since < limits.stall_seconds:
            self._window = (since, before)
            return False
        self._window = (now, taken)
        return taken - before < limits.least_bytes_per_second * (now - since)


class End(asyncio.Protocol):
    """One end; what comes in goes out at the other."""

    def __init__(self, relay: Relay) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = self.written = 0
        """Bytes that came from here, and that were meant for here."""
        self.lost = self.is_full = False
        self._relay = relay
        self._early: list[bytes] = []

    @property
    def waiting(self) -> int:
        """Bytes that were meant for here and have not gone out."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_BUFFERED_BYTES)

    def data_received(self, data: bytes) -> None:
        """Hand it on."""
        self._relay.moved()
        self.received += len(data)
        self._early.append(data)
        if self._other.transport is not None:
            self.hand_on()
        elif self.transport is not None:
            self.transport.pause_reading()  # until there is somebody to hand it to

    def hand_on(self) -> None:
        """What has come goes out at the other end."""
        other = self._other
        if other.transport is not None and not other.lost:
            for data in self._early:
                other.written += len(data)
                other.transport.write(data)
        self._early.clear()
        if self.transport is not None and not self.lost and not other.is_full:
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """Too much waits for this end: the other one is not read."""
        self.is_full = True
        if self._other.transport is not None and not self._other.lost:
            self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        """It is read again."""
        self.is_full = False
        self._relay.moved()
        if self._other.transport is not None and not self._other.lost:
            self._other.transport.resume_reading()

    def connection_lost(self, problem: Exception | None) -> None:
        """The end is closed."""
        self.lost = True
        self._relay.ended()

    @property
    def _other(self) -> "End":
        return self._relay.inside if self is self._relay.outside else self._relay.outside
