"""The methods of the board service: what is answered, what is refused and with which word, what is counted."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from fedboard.common.boards.boards_pb2 import (
    GetRequest,
    LatestRequest,
    RootDocument,
    RootRequest,
    WatchRequest,
)
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.methods import GET, LATEST, ROOT, SERVICE, WATCH
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.server.front.front import Front
from fedboard.server.publishing.counters import ServiceCounters
from fedboard.server.publishing.limits import Held, Limits, RateLimit
from fedboard.server.publishing.shelf import Offer, Shelf

_Request = TypeVar("_Request", bound=Message)
_SERVING = b"\x08\x01"
"""``grpc.health.v1.HealthCheckResponse(status=SERVING)``, a message of one number."""
_LEAST_SECONDS = 10.0
"""A message may take so long to send, however small it is."""
_STATUS = {
    FeedCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    FeedCode.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    FeedCode.RATE_LIMITED: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class Handlers:
    """The methods. All run in the event loop, so nothing here needs a lock."""

    def __init__(self, shelf: Shelf, limits: Limits, counters: ServiceCounters, *, front: Front) -> None:
        """Make ready.

        Args:
            shelf: what is handed out.
            limits: of the service.
            counters: are told of everything.
            front: of the service's port; knows where readers come from.
        """
        self._shelf, self._limits, self._counters = shelf, limits, counters
        self._front = front
        self._rate = RateLimit(limits)
        self._calls = Held(limits.calls_per_address)
        self._streams, self._watchers = Held(limits.streams_per_address), Held(limits.watchers_per_address)
        self._published = asyncio.Condition()
        self._ended = False
        self._reload()

    def generic(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """All methods by name; messages out are bytes already, and so are those in: gRPC itself prints a traceback
        of what it cannot read.
        """
        board = {
            LATEST: grpc.unary_unary_rpc_method_handler(self._latest),
            ROOT: grpc.unary_unary_rpc_method_handler(self._root),
            GET: grpc.unary_stream_rpc_method_handler(self._get),
            WATCH: grpc.unary_stream_rpc_method_handler(self._watch),
        }
        health = {"Check": grpc.unary_unary_rpc_method_handler(self._health)}
        return (
            grpc.method_handlers_generic_handler(SERVICE, board),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),
        )

    async def poll(self, seconds: float) -> None:
        """Look for new boards, for ever."""
        while True:
            await asyncio.sleep(seconds)
            if self._reload():
                async with self._published:
                    self._published.notify_all()

    async def end_watches(self) -> None:
        """Let everybody go who waits."""
        self._ended = True
        async with self._published:
            self._published.notify_all()

    def _reload(self) -> bool:
        found = self._shelf.reload()
        if self._shelf.latest is not None:
            self._counters.latest_version = self._shelf.latest.manifest.version
        return bool(found)

    async def _health(self, request: bytes, context: Any) -> bytes:
        return _SERVING

    async def _latest(self, request: bytes, context: Any) -> bytes:
        async def manifest() -> bytes:
            _read(LatestRequest, request)
            return _some(self._shelf.latest).message

        return bytes(await self._answered(LATEST, context, manifest))

    async def _root(self, request: bytes, context: Any) -> bytes:
        async def document() -> bytes:
            content = self._shelf.root(_read(RootRequest, request).version)
            return bytes(RootDocument(content=content).SerializeToString())

        return bytes(await self._answered(ROOT, context, document))

    async def _answered(self, method: str, context: Any, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run one request under the rate limit; count it; turn a refusal into a status with its code alone."""
        started, outcome, refused = time.perf_counter(), "cancelled", None
        try:
            network = self._network(context)
            if not self._calls.take(network):
                raise FeedRefusedError(FeedCode.RATE_LIMITED)
            # Not when it is answered but when the answer has gone out: a reader may refuse to take it.
            context.add_done_callback(lambda _: self._calls.give_back(network))
            wait = self._rate.wait(network)
            if wait > 0:
                context.set_trailing_metadata((("retry-after-ms", str(int(wait * 1000) + 1)),))
                raise FeedRefusedError(FeedCode.RATE_LIMITED)
            answer = await work()
            outcome = "ok"
            return answer
        except FeedRefusedError as error:
            outcome, refused = error.code.value, _STATUS[error.code]
            self._counters.rate_limited += error.code is FeedCode.RATE_LIMITED
        except TimeoutError:
            outcome, refused = "timeout", grpc.StatusCode.DEADLINE_EXCEEDED
        finally:
            waited = method == WATCH and outcome != FeedCode.RATE_LIMITED.value
            self._counters.finished(method, outcome, None if waited else time.perf_counter() - started)
        return await self._end(context, refused, outcome)

    async def _end(self, context: Any, status: grpc.StatusCode, word: str) -> Any:
        """End a call with a status. It waits behind what the reader has not taken, and gRPC keeps a call as long as
        its connection, so the connection of who takes neither is closed.
        """
        try:
            async with asyncio.timeout(_LEAST_SECONDS):
                return await context.abort(status, word)
        except (TimeoutError, grpc.aio.InternalError):
            self._front.hang_up(_port(context))
            raise asyncio.CancelledError from None

    async def _get(self, request: bytes, context: Any) -> None:
        await self._answered(GET, context, lambda: self._download(request, context))

    async def _download(self, content: bytes, context: Any) -> None:
        request = _read(GetRequest, content)
        offer = self._shelf.find(request)
        proof = self._shelf.log_proof() if request.encoding == LOG_PROOF else None
        file = self._shelf.file(offer, request) if proof is None else None
        network = self._network(context)
        if self._counters.streams >= self._limits.streams or not self._streams.take(network):
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        self._counters.streams += 1
        try:
            async with asyncio.timeout(self._limits.stream_seconds):
                await self._write(offer.part, context)
                for message in proof or ():
                    await self._write(message, context)
                if file is not None:
                    for size, message in self._shelf.parts(file, request.offset):
                        await self._write(message, context)
                        self._counters.bytes_sent += size
        finally:
            self._streams.give_back(network)
            self._counters.streams -= 1

    async def _write(self, message: bytes, context: Any) -> None:
        """Send a message, as long as it is taken fast enough."""
        least = self._limits.least_bytes_per_second
        async with asyncio.timeout(max(_LEAST_SECONDS, len(message) / least) if least else None):
            try:
                await context.write(message)
            except grpc.aio.InternalError:  # the reader has gone, which is nothing to be logged
                raise asyncio.CancelledError from None

    def _network(self, context: Any) -> str:
        """Where a reader comes from."""
        return self._front.network_of(_port(context))

    async def _watch(self, request: bytes, context: Any) -> None:
        await self._answered(WATCH, context, lambda: self._follow(request, context))

    async def _follow(self, content: bytes, context: Any) -> None:
        request = _read(WatchRequest, content)
        network = self._network(context)
        if self._counters.watchers >= self._limits.watchers or not self._watchers.take(network):
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        known = request.known if request.HasField("known") else None
        self._counters.watchers += 1
        try:
            async for offer in self._news(known):
                await self._write(offer.message, context)
        finally:
            self._watchers.give_back(network)
            self._counters.watchers -= 1

    async def _news(self, known: int | None) -> AsyncIterator[Offer]:
        """The newest board if it is newer than the known one, then each board as it comes."""
        latest = self._shelf.latest
        if latest is not None and (known is None or latest.manifest.version > known):
            yield latest
            known = latest.manifest.version
        while not self._ended:
            for offer in self._shelf.newer(known):
                yield offer
                known = offer.manifest.version
            async with self._published:
                if not self._ended and not self._shelf.newer(known):
                    await self._published.wait()


def _port(context: Any) -> int:
    """Of the connection that a call came over: all that gRPC sees of the reader behind the front."""
    port = str(context.peer()).rpartition(":")[2]
    return int(port) if port.isdigit() else 0


def _read(kind: type[_Request], content: bytes) -> _Request:
    try:
        request: _Request = kind.FromString(content)
    except DecodeError:
        raise FeedRefusedError(FeedCode.MALFORMED) from None
    return request


def _some(offer: Offer | None) -> Offer:
    if offer is None:
        raise FeedRefusedError(FeedCode.NOT_FOUND)
    return offer
