"""The gRPC service ``Boards``: what readers get boards from, and what witnesses cosign through.

Anonymous, rate limited, and without any key: manifests are signed before they come here. All of it runs in one
event loop, so nothing needs a lock; files are read and written in threads. Nothing about readers is logged or
stored; addresses are held in memory for the limits. A reader who takes nothing of an answer keeps one call, which
counts for their address, until gRPC ends their connection (``grpc_port``).
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from fedboard.common.boards.board_signature import Cosignature
from fedboard.common.boards.boards_pb2 import (
    CosignReply,
    CosignRequest,
    GetRequest,
    LatestRequest,
    PendingManifest,
    PendingRequest,
    RootDocument,
    RootRequest,
    WatchRequest,
)
from fedboard.common.boards.methods import COSIGN, GET, LATEST, PENDING, ROOT, SERVICE, WATCH
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import FedboardError
from fedboard.server.publishing.counters import ServiceCounters
from fedboard.server.publishing.limits import Held, Limits, RateLimit, network_of
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.shelf import Offer, Shelf

_Request = TypeVar("_Request", bound=Message)
_SERVING: Final = b"\x08\x01"
"""``grpc.health.v1.HealthCheckResponse(status=SERVING)``, a message of one number."""
_LEAST_SECONDS: Final = 10.0
"""A message may take so long to send, however small it is."""
_KEPT_CERTIFICATES: Final = 4
_MOST_KNOWN: Final = 32
"""Manifests that a witness may name, within ``MAX_REQUEST_BYTES``."""
_STATUS: Final = {
    FeedCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    FeedCode.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    FeedCode.RATE_LIMITED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    FeedCode.UNREACHABLE: grpc.StatusCode.UNAVAILABLE,
}


class BoardsServicer:
    """The methods of ``Boards`` for any ``grpc.aio.Server``.

    ``look`` once before a server starts that has them by ``generic``; run ``poll`` as a task beside it, and ``end``
    before it stops.
    """

    def __init__(
        self,
        mirror: Mirror,
        *,
        limits: Limits | None = None,
        simulation: bool = False,
        counters: ServiceCounters | None = None,
    ) -> None:
        """Make ready.

        Args:
            mirror: what is handed out, and what cosignatures are written into.
            limits: None for the default.
            simulation: whether boards whose noise can be reproduced from its seed are handed out, marked as that.
            counters: are told of everything.
        """
        self.counters = counters or ServiceCounters()
        self.shelf = Shelf(mirror, simulation=simulation)
        self._mirror, self._limits = mirror, limits or Limits()
        self._rate = RateLimit(self._limits)
        self._calls = Held(self._limits.calls_per_address)
        self._streams = Held(self._limits.streams_per_address)
        self._watchers = Held(self._limits.watchers_per_address)
        self._certificates: OrderedDict[str, bytes] = OrderedDict()
        self._news = asyncio.Condition()
        self._ended = False

    def generic(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """All methods by name."""
        whole, parts = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods = {
            LATEST: whole(self._latest),
            GET: parts(self._get),
            WATCH: parts(self._watch),
            ROOT: whole(self._root),
            PENDING: parts(self._pending),
            COSIGN: whole(self._cosign),
        }
        health = {"Check": whole(_serving)}
        return (
            grpc.method_handlers_generic_handler(SERVICE, methods),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health", health),
        )

    async def poll(self, seconds: float = 1.0) -> None:
        """Look at the mirror for ever."""
        while True:
            await self.look()
            await asyncio.sleep(seconds)

    async def end(self) -> None:
        """Let go of everybody who waits."""
        self._ended = True
        async with self._news:
            self._news.notify_all()

    async def look(self) -> None:
        """Take in what is in the mirror now."""
        async with self._news:
            if await asyncio.to_thread(self.shelf.reload):
                self._news.notify_all()
        latest = self.shelf.latest
        self.counters.latest_version = -1 if latest is None else latest.manifest.version

    async def _latest(self, request: bytes, context: Any) -> bytes:
        async def newest() -> bytes:
            _read(LatestRequest, request)
            return bytes(_some(self.shelf.latest).message.SerializeToString())

        return bytes(await self._answered(LATEST, context, newest))

    async def _root(self, request: bytes, context: Any) -> bytes:
        async def document() -> bytes:
            content = self.shelf.root(_read(RootRequest, request).version)
            return bytes(RootDocument(content=content).SerializeToString())

        return bytes(await self._answered(ROOT, context, document))

    async def _get(self, request: bytes, context: Any) -> None:
        await self._answered(GET, context, lambda: self._download(_read(GetRequest, request), context))

    async def _watch(self, request: bytes, context: Any) -> None:
        async def follow() -> None:
            asked = _read(WatchRequest, request)
            with self._waiting(context):
                async for offer in self._published(asked.known if asked.HasField("known") else None):
                    await self._write(bytes(offer.message.SerializeToString()), context)

        await self._answered(WATCH, context, follow)

    async def _pending(self, request: bytes, context: Any) -> None:
        async def follow() -> None:
            known = frozenset(_read(PendingRequest, request).known[:_MOST_KNOWN])
            with self._waiting(context):
                async for offer in self._signed(known):
                    await self._write(await self._with_certificate(offer), context)

        await self._answered(PENDING, context, follow)

    async def _cosign(self, request: bytes, context: Any) -> bytes:
        async def keep() -> bytes:
            asked = _read(CosignRequest, request)
            one = Cosignature(key=asked.cosignature.key.hex(), signature=asked.cosignature.signature.hex())
            try:
                kept = await asyncio.to_thread(self._mirror.cosign, asked.manifest, one)
            except (FedboardError, OSError) as error:  # somebody else writes, or nobody can
                raise FeedRefusedError(FeedCode.UNREACHABLE) from error
            if not kept:
                raise FeedRefusedError(FeedCode.NOT_FOUND)
            await self.look()
            pending = {link.digest for link in await asyncio.to_thread(self._mirror.pending)}
            return bytes(CosignReply(enough=asked.manifest not in pending).SerializeToString())

        return bytes(await self._answered(COSIGN, context, keep))

    async def _answered(self, method: str, context: Any, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run one request under the limits; count it; turn a refusal into a status with its code alone."""
        started, outcome, refused = time.perf_counter(), "cancelled", None
        try:
            self._admit(context)
            answer = await work()
            outcome = "ok"
            return answer
        except FeedRefusedError as error:
            outcome, refused = error.code.value, _STATUS[error.code]
            self.counters.rate_limited += error.code is FeedCode.RATE_LIMITED
        except TimeoutError:
            outcome, refused = "timeout", grpc.StatusCode.DEADLINE_EXCEEDED
        finally:
            waited = method in (WATCH, PENDING) and outcome != FeedCode.RATE_LIMITED.value
            self.counters.finished(method, outcome, None if waited else time.perf_counter() - started)
        try:
            async with asyncio.timeout(_LEAST_SECONDS):
                return await context.abort(refused, outcome)
        except (TimeoutError, grpc.aio.InternalError):  # it is not taken, or the reader has gone
            raise asyncio.CancelledError from None

    def _admit(self, context: Any) -> None:
        """Count a call for its address, until its answer has gone out: a reader may refuse to take it."""
        network = network_of(context.peer())
        if not self._calls.take(network):
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        context.add_done_callback(lambda _: self._calls.give_back(network))
        wait = self._rate.wait(network)
        if wait > 0:
            context.set_trailing_metadata((("retry-after-ms", str(int(wait * 1000) + 1)),))
            raise FeedRefusedError(FeedCode.RATE_LIMITED)

    async def _download(self, request: GetRequest, context: Any) -> None:
        offer = self.shelf.find(request)
        file, network = self.shelf.file(offer, request), network_of(context.peer())
        if self.counters.streams >= self._limits.streams or not self._streams.take(network):
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        self.counters.streams += 1
        try:
            async with asyncio.timeout(self._limits.stream_seconds):
                await self._write(offer.part, context)
                if file is not None:
                    for size, message in self.shelf.parts(file, request.offset):
                        await self._write(message, context)
                        self.counters.bytes_sent += size
        finally:
            self._streams.give_back(network)
            self.counters.streams -= 1

    async def _write(self, message: bytes, context: Any) -> None:
        """Send a message, as long as it is taken fast enough."""
        least = self._limits.least_bytes_per_second
        async with asyncio.timeout(max(_LEAST_SECONDS, len(message) / least) if least else None):
            try:
                await context.write(message)
            except grpc.aio.InternalError:  # the reader has gone, which is nothing to be logged
                raise asyncio.CancelledError from None

    @contextmanager
    def _waiting(self, context: Any) -> Any:
        """One more who waits for what comes."""
        network = network_of(context.peer())
        if self.counters.watchers >= self._limits.watchers or not self._watchers.take(network):
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        self.counters.watchers += 1
        try:
            yield
        finally:
            self._watchers.give_back(network)
            self.counters.watchers -= 1

    async def _published(self, known: int | None) -> AsyncIterator[Offer]:
        """The newest board if it is newer than the known one, then each board as it comes."""
        latest = self.shelf.latest
        if latest is not None and (known is None or latest.manifest.version > known):
            yield latest
            known = latest.manifest.version
        async for offer in self._coming(lambda known: self.shelf.newer(known), known, _version):
            yield offer

    async def _signed(self, known: frozenset[str]) -> AsyncIterator[Offer]:
        """The chain after what is known, then each manifest as it is signed."""
        async for offer in self._coming(
            self.shelf.after, known, lambda offer: frozenset({offer.link.digest})
        ):
            yield offer

    async def _coming(
        self, after: Callable[[Any], list[Offer]], known: Any, place: Callable[[Offer], Any]
    ) -> AsyncIterator[Offer]:
        while not self._ended:
            for offer in after(known):
                yield offer
                known = place(offer)
            async with self._news:
                if not self._ended and not after(known):
                    await self._news.wait()

    async def _with_certificate(self, offer: Offer) -> bytes:
        digest = offer.link.digest
        if digest not in self._certificates:
            self._certificates[digest] = await asyncio.to_thread(self.shelf.certificate, offer)
            if len(self._certificates) > _KEPT_CERTIFICATES:
                self._certificates.popitem(last=False)
        message = PendingManifest(manifest=offer.message, certificate=self._certificates[digest])
        return bytes(message.SerializeToString())


async def _serving(request: bytes, context: Any) -> bytes:
    """What probes of a load balancer ask for."""
    return _SERVING


def _version(offer: Offer) -> int:
    return offer.manifest.version


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
