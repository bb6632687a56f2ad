"""The gRPC server behind the front; another one takes its place where a single request ends it.

grpcio (1.85) reads the path of a call as UTF-8 in the one loop that takes all calls, so a call of anybody whose
path is other bytes ends that loop, and the server shuts down. The path cannot be looked at before: TLS is between
the reader and the server. So the end of the loop is noticed, and a new server takes all connections from then on;
the old one finishes the calls that it has.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import grpc

from fedboard.common.boards.methods import MAX_REQUEST_BYTES
from fedboard.server.front.front import INSIDE
from fedboard.server.publishing.limits import Limits

_log = logging.getLogger(__name__)
_GRPC_LOG = logging.getLogger("grpc._cython.cygrpc")
_TAKES_CALLS = "_server_main_loop"
"""What gRPC calls the task; a test finds out when it is called otherwise."""
_HUNG_UP = "Failed sending error status from server"
"""What it says where a caller is gone before he could be told that his call is none."""
_MORE_CALLS = 256
"""Calls beyond downloads and waiting readers: they are answered or sent away within a moment."""
_AGES = 4
"""A connection may last so many times the longest download."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_metadata_size", 8192),
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


class GrpcServers:
    """One server after another, each on a port of its own. All of it runs in the event loop."""

    def __init__(
        self,
        handlers: Sequence[grpc.GenericRpcHandler],
        limits: Limits,
        *,
        pair: tuple[bytes, bytes] | None,
    ) -> None:
        """None runs yet.

        Args:
            handlers: of all methods, for every server.
            limits: of the service.
            pair: private key and certificate chain, PEM; None: no TLS.
        """
        self._handlers, self._limits, self._pair = handlers, limits, pair
        self._old: dict[grpc.aio.Server, asyncio.Task[None]] = {}
        self._ended, self._replaced = asyncio.Event(), 0
        self._server: grpc.aio.Server | None = None
        self.port = 0
        """Of the one that takes connections, on 127.0.0.1."""

    async def start(self) -> None:
        """Start one."""
        self._ended.clear()
        _GRPC_LOG.addFilter(_is_news)
        asyncio.get_running_loop().set_exception_handler(_tell)
        limits = self._limits
        self._server = grpc.aio.server(
            options=(*_OPTIONS, *_times(limits)),
            maximum_concurrent_rpcs=limits.streams + limits.watchers + _MORE_CALLS,
        )
        self._server.add_generic_rpc_handlers(self._handlers)
        self.port = self._listen(self._server)
        before = asyncio.all_tasks()
        await self._server.start()
        for task in asyncio.all_tasks() - before:
            if getattr(task.get_coro(), "__name__", "") == _TAKES_CALLS:
                task.add_done_callback(partial(self._end, self._server))

    async def run(self, lead_to: Callable[[int], None]) -> None:
        """Replace each server whose loop ends, for ever.

        Args:
            lead_to: lets connections go to another port from now on.
        """
        while True:
            await self._ended.wait()
            if not self._replaced:
                _log.warning(
                    "the gRPC server ended at a call that it could not read, and another took its place, as will "
                    "be done from now on without a word"
                )
            self._replaced += 1
            if self._server is not None:
                self._finish(self._server)
            await self.start()
            lead_to(self.port)

    def _end(self, server: grpc.aio.Server, _: object) -> None:
        if server is self._server:
            self._ended.set()

    async def close(self, *, seconds: float) -> None:
        """End all of them, after so many seconds for calls under way; no ``run`` may be under way."""
        servers = [*self._old, *([] if self._server is None else [self._server])]
        finishing = list(self._old.values())
        await asyncio.gather(*(_stopped(server, seconds) for server in servers))
        await asyncio.gather(*finishing)

    def _finish(self, server: grpc.aio.Server) -> None:
        """Let it end its calls; it is kept until it has, since gRPC's own threads still use it."""
        task = asyncio.get_running_loop().create_task(_stopped(server, self._limits.stream_seconds))
        self._old[server] = task
        task.add_done_callback(lambda _: self._old.pop(server))

    def _listen(self, server: grpc.aio.Server) -> int:
        """Behind the front, on this machine alone."""
        place = f"{INSIDE}:0"
        if self._pair is None:
            return int(server.add_insecure_port(place))
        return int(server.add_secure_port(place, grpc.ssl_server_credentials([self._pair])))


def _is_news(record: logging.LogRecord) -> bool:
    """Not what strangers send that is no call, nor that they hang up: anybody could fill the log with it."""
    error = record.exc_info[1] if record.exc_info else None
    return record.msg != _HUNG_UP and not isinstance(error or record.msg, UnicodeDecodeError)


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The same for what asyncio logs; and whoever hangs up before he is told an error is no news either."""
    if not isinstance(context.get("exception"), UnicodeDecodeError) and context.get("message") != _HUNG_UP:
        loop.default_exception_handler(context)


async def _stopped(server: grpc.aio.Server, seconds: float) -> None:
    """End a server whose loop has failed; the first attempt gives what it failed of."""
    with suppress(UnicodeDecodeError):
        await server.stop(grace=seconds)
    with suppress(UnicodeDecodeError):
        await server.stop(grace=seconds)


def _times(limits: Limits) -> tuple[tuple[str, int], ...]:
    """How long gRPC keeps a connection without a call, and any connection; the second ends what nothing else ends:
    a call whose answer is never taken. Downloads under way are given their time, and readers who wait come again.
    """
    longest = int(1000 * limits.stream_seconds)
    return (
        ("grpc.max_connection_idle_ms", int(1000 * limits.idle_seconds)),
        ("grpc.max_connection_age_ms", _AGES * longest),
        ("grpc.max_connection_age_grace_ms", longest),
    )
