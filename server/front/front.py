"""A port that everybody reaches, in front of a server on 127.0.0.1 that cannot bound its connections itself.

gRPC takes connections as long as there are file descriptors, and has no limit per address; so one reader with a
thousand idle connections keeps all others out. Here each connection is counted before a byte of it is handed on.
Bytes pass as they are: TLS is between the reader and the server behind.
"""

import asyncio
import socket
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field

from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import Address
from fedboard.server.front.census import Census
from fedboard.server.front.limits import ConnectionLimits, network_of
from fedboard.server.front.relay import End, Relay

INSIDE = "127.0.0.1"
_BACKLOG = 1024
_LOOK_SECONDS = 1.0
_CONNECT_SECONDS = 10.0


@dataclass(slots=True)
class FrontCounts:
    """What a front counts: how much, never by whom."""

    open: int = 0
    refused: int = 0
    """Connections that were closed at once: their address, or all together, had as many as they may."""
    closed: int = 0
    """Connections that were silent or slow for too long."""


@dataclass(slots=True, kw_only=True)
class Front:
    """Listens outside, connects inside. One event loop."""

    limits: ConnectionLimits
    counts: FrontCounts = field(default_factory=FrontCounts)
    port: int = 0
    """Where it listens."""
    _census: Census = field(init=False)
    _inside_port: int = 0
    _servers: list[asyncio.Server] = field(default_factory=list)
    _relays: dict[int, Relay] = field(default_factory=dict)
    """By the near port of each inner connection."""
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Nobody is there."""
        self._census = Census(self.limits)

    async def start(self, listening: list[socket.socket], *, inside_port: int) -> None:
        """Let connections in.

        Args:
            listening: bound sockets, as ``bound`` gives them.
            inside_port: of what serves, on 127.0.0.1.
        """
        loop = asyncio.get_running_loop()
        self._inside_port, self.port = inside_port, int(listening[0].getsockname()[1])
        self._servers = [
            await loop.create_server(lambda: _Door(self), sock=one, backlog=_BACKLOG) for one in listening
        ]
        self._keep(self._watch())

    def lead_to(self, inside_port: int) -> None:
        """Connect those who come from now on to another port on 127.0.0.1; others stay where they are."""
        self._inside_port = inside_port

    async def close(self) -> None:
        """Let nobody in any more, and close what is open."""
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        for one in self._census.all():
            one.abort()
        await asyncio.sleep(0)

    def network_of(self, inside_port: int) -> str:
        """Where the connection came from that what serves inside sees coming from this port.

        Returns:
            An address, or of IPv6 a network; ``other`` for a connection that did not come through here.
        """
        relay = self._relays.get(inside_port)
        return "other" if relay is None else relay.network

    def hang_up(self, inside_port: int) -> None:
        """Close a connection at once, with all that goes over it."""
        if (relay := self._relays.get(inside_port)) is not None:
            self._close(relay)

    def admits(self, relay: Relay) -> bool:
        """Whether a new connection may stay; then it is connected inside."""
        if not self._census.admit(relay):
            self.counts.refused += 1
            return False
        self.counts.open = self._census.total
        self._keep(self._connect(relay))
        return True

    def gone(self, relay: Relay) -> None:
        """A connection is closed."""
        self._census.leave(relay)
        self._relays.pop(relay.inside_port, None)
        self.counts.open = self._census.total

    async def _connect(self, relay: Relay) -> None:
        loop, outside = asyncio.get_running_loop(), relay.outside.transport
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                inside, _ = await loop.create_connection(lambda: relay.inside, INSIDE, self._inside_port)
        except (OSError, TimeoutError):
            relay.abort()
            return
        relay.inside_port = int(inside.get_extra_info("sockname")[1])
        if relay.outside.lost or outside is None:
            inside.abort()
            return
        self._relays[relay.inside_port] = relay  # before what serves sees a byte
        relay.outside.hand_on()

    async def _watch(self) -> None:
        """Close what is silent or slow, for ever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for one in self._census.all():
                if isinstance(one, Relay) and one.is_overdue(now, self.limits):
                    self._close(one)

    def _close(self, relay: Relay) -> None:
        self.counts.closed += 1
        self._census.leave(relay)
        relay.abort()

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        """Run it; the loop itself holds tasks only weakly."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Door(asyncio.Protocol):
    """What the listening socket makes of a new connection: the outer end of a relay, or nothing."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._end: End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand it over if it may stay."""
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername") or ("",)
        relay = Relay(network_of(str(peer[0])), gone=self._front.gone)
        relay.outside.connection_made(transport)
        transport.set_protocol(relay.outside)
        if not self._front.admits(relay):
            transport.abort()


def bound(address: Address, *, name: str) -> list[socket.socket]:
    """Sockets that are bound to an address.

    Args:
        address: port 0 takes a free one; ``::`` is every address of both kinds.
        name: of what listens, for the message.

    Raises:
        InputError: it is none of this machine's, or the port is in use.
    """
    host, port = address
    found: list[socket.socket] = []
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, place in dict.fromkeys(infos):
            chosen = found[0].getsockname()[1] if found else place[1]
            try:
                found.append(_bound(family, kind, protocol, (place[0], chosen, *place[2:])))
            except OSError:
                if not found:  # a name may stand for addresses that this machine lacks; one is enough
                    raise
    except OSError as error:
        for one in found:
            one.close()
        raise InputError(
            f"{name} cannot listen on {host}:{port}; the port is in use, or the address is none of this machine's"
        ) from error
    return found


def _bound(family: int, kind: int, protocol: int, place: tuple[object, ...]) -> socket.socket:
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            both = place[0] == "::"
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        one.bind(place)
        one.listen(_BACKLOG)
    except OSError:
        one.close()
        raise
    return one
