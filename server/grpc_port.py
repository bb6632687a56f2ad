"""One TLS port with a gRPC server behind it; another server takes its place where a single call ends it.

grpcio (1.85) reads the path of a call as UTF-8 in the one loop that takes all calls, so a call of anybody whose
path is other bytes ends that loop, and the server shuts down. The path cannot be looked at before: TLS is between
the caller and the server. So the end of the loop is noticed, and a new server listens at the same port from then on
(``SO_REUSEPORT``); the old one finishes the calls that it has.
"""

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import grpc

from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import Address

_log = logging.getLogger(__name__)
_GRPC_LOG = logging.getLogger("grpc._cython.cygrpc")
_TAKES_CALLS: Final = "_server_main_loop"
"""What gRPC calls the task; a test finds out when it is called otherwise."""
_HUNG_UP: Final = "Failed sending error status from server"
"""What it says where a caller is gone before they could be told that their call is none."""
_ADVICE: Final = {
    errno.EADDRINUSE: "another process listens there; end it or choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have that address; give one of its own, or 0.0.0.0 for all",
    errno.EACCES: "this account may not listen there; choose a port from 1024 up",
}
_WINDOW_BYTES: Final = 1 << 17
"""Of a message that nobody has read yet gRPC keeps so many bytes, for each call."""
_MOST_OLD: Final = 16
"""Servers that finish their calls; were there more, somebody would be at work who makes them."""
_OTHER_DESCRIPTORS: Final = 512
_MOST_CONNECTIONS: Final = 20_000
_LEAST_CONNECTIONS: Final = 32


def server_options(*, max_request_bytes: int, longest_seconds: float) -> tuple[tuple[str, int], ...]:
    """What a public port takes on, as gRPC names it.

    Args:
        max_request_bytes: most bytes of one message from outside.
        longest_seconds: of a call; a connection may be a few times as old.
    """
    longest = int(1000 * longest_seconds)
    return (
        ("grpc.max_receive_message_length", max_request_bytes),
        ("grpc.max_metadata_size", 1 << 13),
        ("grpc.absolute_max_metadata_size", 1 << 14),
        ("grpc.max_concurrent_streams", 64),
        ("grpc.max_allowed_incoming_connections", most_connections()),
        ("grpc.compression_enabled_algorithms_bitset", 1),  # none: what is compressed is refused unread
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),  # or the window grows with what a caller sends
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.keepalive_time_ms", 120_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.server_handshake_timeout_ms", 20_000),
        ("grpc.max_connection_idle_ms", 120_000),
        ("grpc.max_connection_age_ms", 4 * longest),
        ("grpc.max_connection_age_grace_ms", longest),
        ("grpc.so_reuseport", 1),
    )


def most_connections() -> int:
    """How many connections this process has file descriptors for, after its limit was raised as far as it may be.

    Raises:
        InputError: for next to none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OTHER_DESCRIPTORS + _MOST_CONNECTIONS
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system may have a limit of its own beside this one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(soft, needed) - _OTHER_DESCRIPTORS
    if found < _LEAST_CONNECTIONS:
        raise InputError(
            f"this account may open {soft} files, and a server needs {_OTHER_DESCRIPTORS + _LEAST_CONNECTIONS} at "
            "least; raise its limit (ulimit -Hn, or LimitNOFILE= of a systemd unit)"
        )
    return found


class GrpcPort:
    """A port, and one server after another at it. All of it runs in the event loop."""

    def __init__(
        self,
        handlers: Sequence[grpc.GenericRpcHandler],
        address: Address,
        *,
        pair: tuple[bytes, bytes] | None,
        options: Sequence[tuple[str, int]],
        most_calls: int = 4096,
        grace: float = 30.0,
    ) -> None:
        """Nothing listens yet.

        Args:
            handlers: of all methods, for every server.
            address: where it listens; port 0 takes a free one.
            pair: private key and certificate chain, PEM; None: no TLS, behind a proxy on this machine or in a test.
            options: of gRPC, see ``server_options``.
            most_calls: at the same time; others are told that the server is busy.
            grace: seconds that a server whose place another has taken has for the calls under way.
        """
        self._handlers, self._address, self._pair = handlers, address, pair
        self._options, self._most_calls, self._grace = tuple(options), most_calls, grace
        self._old: dict[grpc.aio.Server, asyncio.Task[None]] = {}
        self._ended, self._replaced = asyncio.Event(), 0
        self._server: grpc.aio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._address.port

    async def start(self) -> None:
        """Listen.

        Raises:
            InputError: the port is in use, the address is none of this machine's, or certificate and key are none.
        """
        require_free(self._address)
        _GRPC_LOG.addFilter(_is_news)
        asyncio.get_running_loop().set_exception_handler(_tell)
        await self._start()

    async def _start(self) -> None:
        self._ended.clear()
        server = grpc.aio.server(options=self._options, maximum_concurrent_rpcs=self._most_calls)
        server.add_generic_rpc_handlers(self._handlers)
        self._address = self._address._replace(port=self._listen(server))
        before = asyncio.all_tasks()
        await server.start()
        self._server = server
        for task in asyncio.all_tasks() - before:
            if getattr(task.get_coro(), "__name__", "") == _TAKES_CALLS:
                task.add_done_callback(partial(self._end, server))

    def _listen(self, server: grpc.aio.Server) -> int:
        place = self._address.text
        try:
            if self._pair is None:
                return int(server.add_insecure_port(place))
            return int(server.add_secure_port(place, grpc.ssl_server_credentials([self._pair])))
        except RuntimeError as error:
            raise InputError(f"{place}: gRPC cannot listen there, or not with this certificate") from error

    async def run(self) -> None:
        """Replace each server whose loop ends, for ever."""
        while True:
            await self._ended.wait()
            if not self._replaced:
                _log.warning(
                    "the gRPC server ended at a call that it could not read, and another took its place, as will "
                    "be done from now on without a word"
                )
            self._replaced += 1
            if (old := self._server) is not None:
                grace = self._grace if len(self._old) < _MOST_OLD else 0.0
                task = asyncio.get_running_loop().create_task(_stopped(old, grace))
                self._old[old] = task  # until it has ended, since gRPC's own threads still use it
                task.add_done_callback(partial(self._forget, old))
            await self._start()

    def _forget(self, old: grpc.aio.Server, _: object) -> None:
        self._old.pop(old, None)

    def _end(self, server: grpc.aio.Server, _: object) -> None:
        if server is self._server:
            self._ended.set()

    async def close(self, *, seconds: float) -> None:
        """End all servers, after so many seconds for calls under way; no ``run`` may be under way."""
        servers = [*self._old, *([] if self._server is None else [self._server])]
        self._server = None
        finishing = list(self._old.values())
        await asyncio.gather(*(_stopped(server, seconds) for server in servers))
        await asyncio.gather(*finishing)


def require_free(address: Address, *, key: str = "") -> None:
    """Try once to listen there; two servers of one account would share a port without a word.

    Args:
        address: where.
        key: of the settings, that it is from.

    Raises:
        InputError: the port is in use or not for this account, or the address is none of this machine's.
    """
    place = (address.host, address.port)
    kind = socket.AF_INET6 if ":" in address.host else socket.AF_UNSPEC
    try:
        infos = socket.getaddrinfo(*place, family=kind, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind_of, protocol, _, found = infos[0]
        with socket.socket(family, kind_of, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found)
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, f"{error.strerror}; give another address")
        named = f"{key}: " if key else ""
        raise InputError(f"{named}cannot listen on {address.text}: {advice}") from error


def _is_news(record: logging.LogRecord) -> bool:
    """Not what strangers send that is no call, nor that they hang up: anybody could fill the log with it."""
    error = record.exc_info[1] if record.exc_info else None
    return record.msg != _HUNG_UP and not isinstance(error or record.msg, UnicodeDecodeError)


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The same for what asyncio logs; and whoever hangs up before they are told an error is no news either."""
    if not isinstance(context.get("exception"), UnicodeDecodeError) and context.get("message") != _HUNG_UP:
        loop.default_exception_handler(context)


async def _stopped(server: grpc.aio.Server, seconds: float) -> None:
    """End a server whose loop has failed; the first attempt gives what it failed of."""
    with suppress(UnicodeDecodeError):
        await server.stop(grace=seconds)
    with suppress(UnicodeDecodeError):
        await server.stop(grace=seconds)
