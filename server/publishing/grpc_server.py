"""A ``grpc.aio.Server`` on a port, and another one in its place where a single request ends it.

grpcio (1.85) reads the path of a call as UTF-8 in the one loop that takes all calls, so a call of anybody whose
path is other bytes ends that loop, and the server shuts down. The path cannot be looked at before: TLS is between
the caller and the server. So the end of the loop is noticed, and a new server takes the port; the old one finishes
the calls that it has.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import grpc

from fedboard.common.errors import InputError

_log = logging.getLogger(__name__)
_GRPC_LOG = logging.getLogger("grpc._cython.cygrpc")
_TAKES_CALLS: Final = "_server_main_loop"
"""What gRPC calls the task; a test finds out when it is called otherwise."""
_HUNG_UP: Final = "Failed sending error status from server"
"""What it says where a caller is gone before they could be told that their call is none."""
_BIND_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.01
_OPTIONS: Final = (
    ("grpc.max_metadata_size", 8192),
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 20_000),
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 300_000),
)


class LastingServer:
    """One server after another on one port. All of it runs in the event loop."""

    def __init__(
        self,
        address: str,
        prepare: Callable[[grpc.aio.Server], None],
        *,
        pair: tuple[bytes, bytes] | None,
        most_calls: int,
        longest_seconds: float,
        options: Sequence[tuple[str, int]] = (),
    ) -> None:
        """None runs yet.

        Args:
            address: ``host:port``; port 0 takes a free one.
            prepare: adds the services to a server that is to start.
            pair: private key and certificate chain, PEM; None: no TLS.
            most_calls: under way at a time; more are refused.
            longest_seconds: the longest call. A connection may last four times as long, which ends what nothing
                else ends: a call whose answer is never taken.
            options: of gRPC, further ones.
        """
        self._host, _, port = address.rpartition(":")
        self._prepare, self._pair, self._most_calls = prepare, pair, most_calls
        longest = int(1000 * longest_seconds)
        ages = (("grpc.max_connection_age_ms", 4 * longest), ("grpc.max_connection_age_grace_ms", longest))
        self._options, self._longest_seconds = (*_OPTIONS, *ages, *options), longest_seconds
        self.port = int(port)
        """Where it listens, from ``start`` on."""
        self._server: grpc.aio.Server | None = None
        self._old: set[asyncio.Task[None]] = set()
        self._ended, self._replaced = asyncio.Event(), 0

    async def start(self) -> None:
        """Start one.

        Raises:
            InputError: the port cannot be had.
        """
        self._ended.clear()
        _GRPC_LOG.addFilter(_is_news)
        asyncio.get_running_loop().set_exception_handler(_tell)
        server = grpc.aio.server(options=self._options, maximum_concurrent_rpcs=self._most_calls)
        self._prepare(server)
        self.port = self._listen(server)
        before = asyncio.all_tasks()
        await server.start()
        self._server = server
        for task in asyncio.all_tasks() - before:
            if getattr(task.get_coro(), "__name__", "") == _TAKES_CALLS:
                task.add_done_callback(partial(self._end, server))

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
            if self._server is not None:
                task = asyncio.get_running_loop().create_task(_stopped(self._server, self._longest_seconds))
                self._old.add(task)  # it is kept until it has ended, since gRPC's own threads still use it
                task.add_done_callback(self._old.discard)
            await self._start_again()

    async def close(self, *, seconds: float) -> None:
        """End all of them, after so many seconds for calls under way; no ``run`` may be under way."""
        if self._server is not None:
            await _stopped(self._server, seconds)
        for task in self._old:
            task.cancel()
        await asyncio.gather(*self._old, return_exceptions=True)

    async def _start_again(self) -> None:
        """On the same port, as soon as the old server has let go of it."""
        end = asyncio.get_running_loop().time() + _BIND_SECONDS
        while True:
            try:
                return await self.start()
            except InputError:
                if asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(_LOOK_SECONDS)

    def _end(self, server: grpc.aio.Server, _: object) -> None:
        if server is self._server:
            self._ended.set()

    def _listen(self, server: grpc.aio.Server) -> int:
        place = f"{self._host}:{self.port}"
        try:
            if self._pair is None:
                port = int(server.add_insecure_port(place))
            else:
                port = int(server.add_secure_port(place, grpc.ssl_server_credentials([self._pair])))
        except RuntimeError as error:
            raise InputError(
                f"{place}: nothing can listen there; is another process on that port?"
            ) from error
        if not port:
            raise InputError(f"{place}: nothing can listen there; is another process on that port?")
        return port


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
