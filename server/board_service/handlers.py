"""The methods of the board service: what is answered, what is refused and with which word, what is counted."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from fedboard.common.board_service.board_service_pb2 import GetRequest, LatestRequest, WatchRequest
from fedboard.common.board_service.methods import GET, LATEST, SERVICE, WATCH
from fedboard.common.board_service.refusals import FeedCode, FeedRefusedError
from fedboard.server.board_service.counters import ServiceCounters
from fedboard.server.board_service.limits import Limits, RateLimit
from fedboard.server.board_service.shelf import Offer, Shelf

_SERVING = b"\x08\x01"
"""``grpc.health.v1.HealthCheckResponse(status=SERVING)``, a message of one number."""
_STATUS = {
    FeedCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    FeedCode.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    FeedCode.RATE_LIMITED: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class Handlers:
    """The methods. All run in the event loop, so nothing here needs a lock."""

    def __init__(self, shelf: Shelf, limits: Limits, counters: ServiceCounters) -> None:
        self._shelf, self._limits, self._counters = shelf, limits, counters
        self._rate = RateLimit(limits)
        self._published = asyncio.Condition()
        self._ended = False
        self._reload()

    def generic(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """All methods by name; messages out are bytes already."""
        board = {
            LATEST: grpc.unary_unary_rpc_method_handler(self._latest, LatestRequest.FromString),
            GET: grpc.unary_stream_rpc_method_handler(self._get, GetRequest.FromString),
            WATCH: grpc.unary_stream_rpc_method_handler(self._watch, WatchRequest.FromString),
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

    async def _latest(self, request: LatestRequest, context: Any) -> bytes:
        return bytes(await self._answered(LATEST, context, self._latest_message))

    async def _latest_message(self) -> bytes:
        return _some(self._shelf.latest).message

    async def _answered(self, method: str, context: Any, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run one request under the rate limit; count it; turn a refusal into a status with its code alone."""
        started, outcome, refused = time.perf_counter(), "cancelled", None
        try:
            wait = self._rate.wait(context.peer())
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
        return await context.abort(refused, outcome)

    async def _get(self, request: GetRequest, context: Any) -> None:
        await self._answered(GET, context, lambda: self._download(request, context))

    async def _download(self, request: GetRequest, context: Any) -> None:
        if self._counters.streams >= self._limits.streams:
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        offer = self._shelf.find(request)
        file = self._shelf.file(offer, request)
        self._counters.streams += 1
        try:
            async with asyncio.timeout(self._limits.stream_seconds):
                await context.write(offer.part)
                if file is not None:
                    for size, message in self._shelf.parts(file, request.offset):
                        await context.write(message)
                        self._counters.bytes_sent += size
        finally:
            self._counters.streams -= 1

    async def _watch(self, request: WatchRequest, context: Any) -> None:
        await self._answered(WATCH, context, lambda: self._follow(request, context))

    async def _follow(self, request: WatchRequest, context: Any) -> None:
        if self._counters.watchers >= self._limits.watchers:
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        known = request.known if request.HasField("known") else None
        self._counters.watchers += 1
        try:
            async for offer in self._news(known):
                await context.write(offer.message)
        finally:
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


def _some(offer: Offer | None) -> Offer:
    if offer is None:
        raise FeedRefusedError(FeedCode.NOT_FOUND)
    return offer


__all__ = ["Handlers"]
