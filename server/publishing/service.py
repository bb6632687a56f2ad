"""The gRPC service ``Boards``: what readers get boards from, and what witnesses cosign through.

Anonymous, rate limited, and without any key: manifests are signed before they come here. All of it runs in one
event loop, so nothing needs a lock; files are read and written in threads. Nothing about readers is logged or
stored; addresses are held in memory for the limits. A reader who takes nothing of an answer keeps one call, which
counts for their address, until gRPC ends their connection (``grpc_port``).
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from fedboard.common.boards.board_signature import Cosignature
from fedboard.common.boards.boards_pb2 import (
    Chunk,
    CosignReply,
    CosignRequest,
    FetchRequest,
    PendingManifest,
    PendingRequest,
    WatchRequest,
)
from fedboard.common.boards.manifest import Link
from fedboard.common.boards.methods import COSIGN, FETCH, MAX_REQUEST_BYTES, PENDING, SERVICE, WATCH
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import FedboardError, PrivacyError
from fedboard.common.messages.addresses import parse_address
from fedboard.server.grpc_port import GrpcPort, server_options
from fedboard.server.publishing.limits import Held, Limits, RateLimit, network_of
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.shelf import Shelf
from fedboard.server.tls import require_pair

_Request = TypeVar("_Request", bound=Message)
_SERVING: Final = b"\x08\x01"
"""``grpc.health.v1.HealthCheckResponse(status=SERVING)``, a message of one number."""
_LEAST_SECONDS: Final = 10.0
"""A message may take so long to send, however small it is."""
_KEPT_CERTIFICATES: Final = 4
_FAREWELL_SECONDS: Final = 0.5
_MORE_CALLS: Final = 256
"""Calls beyond downloads and waiting readers: they are answered or sent away within a moment."""
_MOST_KNOWN: Final = 32
"""Manifests that a witness may name, within ``MAX_REQUEST_BYTES``."""
_STATUS: Final = {
    FeedCode.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    FeedCode.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    FeedCode.RATE_LIMITED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    FeedCode.UNREACHABLE: grpc.StatusCode.UNAVAILABLE,
}


@dataclass(slots=True)
class ServiceCounters:
    """What a board service counts of itself since its start: how much, never by whom. Its thread alone writes."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By method and outcome: ``ok``, or the status that it ended with."""
    bytes_sent: int = 0
    """Of files, before gRPC's and TLS's own."""
    rate_limited: int = 0
    streams: int = 0
    """Downloads under way."""
    watchers: int = 0
    latest_version: int = -1
    """Newest version that is served; -1: none."""
    answered: int = 0
    """Requests but those that wait on purpose (``Watch``)."""
    answer_seconds: float = 0.0
    """Of these."""


class BoardsServicer:
    """The methods of ``Boards`` for any ``grpc.aio.Server``.

    ``look`` once before a server starts that has them by ``generic``; run ``poll`` as a task beside it, and ``end``
    before it stops.
    """

    def __init__(self, mirror: Mirror, *, limits: Limits | None = None, simulation: bool = False) -> None:
        """Make ready.

        Args:
            mirror: what is handed out, and what cosignatures are written into.
            limits: None for the default.
            simulation: whether boards whose noise can be reproduced from its seed are handed out, marked as that.
        """
        self.counters = ServiceCounters()
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
            FETCH: parts(partial(self._answered, FETCH, self._fetch)),
            WATCH: parts(partial(self._answered, WATCH, self._watch)),
            PENDING: parts(partial(self._answered, PENDING, self._pending)),
            COSIGN: whole(partial(self._answered, COSIGN, self._cosign)),
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

    async def _fetch(self, request: bytes, context: Any) -> None:
        asked = _read(FetchRequest, request)
        # By themselves: a call whose first message is cut before they were sent could not be ended.
        await self._taken(context.send_initial_metadata(()))
        small = self.shelf.small(asked.name)
        if small is None:
            await self._download(asked, context)
        elif asked.offset <= len(small):
            await self._write(_chunk(small[asked.offset :]), context)
        else:
            raise FeedRefusedError(FeedCode.MALFORMED)

    async def _watch(self, request: bytes, context: Any) -> None:
        asked = _read(WatchRequest, request)
        known = asked.known if asked.HasField("known") else None
        with self._waiting(context):
            async for link in self._coming(self.shelf.newer, known, lambda link: link.manifest.version):
                await self._write(_chunk(link.signed.to_bytes()), context)

    async def _pending(self, request: bytes, context: Any) -> None:
        known = frozenset(_read(PendingRequest, request).known[:_MOST_KNOWN])
        with self._waiting(context):
            async for link in self._coming(self.shelf.after, known, lambda link: frozenset({link.digest})):
                await self._write(await self._with_certificate(link), context)

    async def _cosign(self, request: bytes, context: Any) -> bytes:
        asked = _read(CosignRequest, request)
        one = Cosignature(key=asked.key.hex(), signature=asked.signature.hex())
        try:
            kept = await asyncio.to_thread(self._mirror.cosign, asked.manifest, one)
        except (FedboardError, OSError) as error:  # somebody else writes, or nobody can
            raise FeedRefusedError(FeedCode.UNREACHABLE) from error
        if not kept:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        await self.look()
        pending = {link.digest for link in await asyncio.to_thread(self._mirror.pending)}
        return bytes(CosignReply(enough=asked.manifest not in pending).SerializeToString())

    async def _answered(
        self, method: str, work: Callable[[bytes, Any], Awaitable[Any]], request: bytes, context: Any
    ) -> Any:
        """Run one request under the limits; count it; turn a refusal into a status with its code alone."""
        started, outcome, refused = time.perf_counter(), "cancelled", None
        try:
            self._admit(context)
            answer = await work(request, context)
            outcome = "ok"
            return answer
        except FeedRefusedError as error:
            outcome, refused = error.code.value, _STATUS[error.code]
            self.counters.rate_limited += error.code is FeedCode.RATE_LIMITED
        except TimeoutError:
            outcome, refused = "timeout", grpc.StatusCode.DEADLINE_EXCEEDED
        finally:
            waited = method in (WATCH, PENDING) and outcome != FeedCode.RATE_LIMITED.value
            self.counters.requests[method, outcome] += 1
            if not waited:
                self.counters.answered += 1
                self.counters.answer_seconds += time.perf_counter() - started
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

    async def _download(self, asked: FetchRequest, context: Any) -> None:
        network = network_of(context.peer())
        if self.counters.streams >= self._limits.streams or not self._streams.take(network):
            raise FeedRefusedError(FeedCode.RATE_LIMITED)
        self.counters.streams += 1
        try:
            async with asyncio.timeout(self._limits.stream_seconds):
                for content in self.shelf.chunks(asked.name, asked.offset):
                    await self._write(_chunk(content), context)
                    self.counters.bytes_sent += len(content)
        finally:
            self._streams.give_back(network)
            self.counters.streams -= 1

    async def _write(self, message: bytes, context: Any) -> None:
        await self._taken(context.write(message), len(message))

    async def _taken(self, sending: Awaitable[Any], size: int = 0) -> None:
        """Send so many bytes, as long as they are taken fast enough."""
        async with asyncio.timeout(max(_LEAST_SECONDS, size / self._limits.least_bytes_per_second)):
            try:
                await sending
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

    async def _coming(
        self, after: Callable[[Any], list[Link]], known: Any, place: Callable[[Link], Any]
    ) -> AsyncIterator[Link]:
        """What is after what is known, then each manifest as it comes."""
        while not self._ended:
            for link in after(known):
                yield link
                known = place(link)
            async with self._news:
                if not self._ended and not after(known):
                    await self._news.wait()

    async def _with_certificate(self, link: Link) -> bytes:
        if link.digest not in self._certificates:  # reading one means reading its whole board
            self._certificates[link.digest] = await asyncio.to_thread(self.shelf.certificate, link)
            if len(self._certificates) > _KEPT_CERTIFICATES:
                self._certificates.popitem(last=False)
        certificate = self._certificates[link.digest]
        message = PendingManifest(manifest=link.signed.to_bytes(), certificate=certificate)
        return bytes(message.SerializeToString())


async def _serving(request: bytes, context: Any) -> bytes:
    """What probes of a load balancer ask for."""
    return _SERVING


def _chunk(content: bytes) -> bytes:
    return bytes(Chunk(content=content).SerializeToString())


def _read(kind: type[_Request], content: bytes) -> _Request:
    try:
        request: _Request = kind.FromString(content)
    except DecodeError:
        raise FeedRefusedError(FeedCode.MALFORMED) from None
    return request


async def serve_boards(
    mirror: Path,
    *,
    address: str,
    certificate: Path | None = None,
    private_key: Path | None = None,
    simulation: bool = False,
    limits: Limits | None = None,
    poll_seconds: float = 1.0,
    listening: Callable[[int, ServiceCounters], None],
) -> None:
    """Serve a mirror over gRPC, without a fleet and without a key, until this task is cancelled.

    Args:
        mirror: folder that ``publish_into`` writes.
        address: ``host:port``; port 0 takes a free one.
        certificate: PEM chain for TLS; None: no TLS, for a proxy on the same machine or a test.
        private_key: PEM key of the certificate.
        simulation: whether boards whose noise can be reproduced from its seed are handed out, marked as that.
        limits: None for the default.
        poll_seconds: how often the mirror is looked at.
        listening: is told the port, and what is counted, once both are there.

    Raises:
        InputError: the address, the certificate or its key cannot be used.
        PrivacyError: a board there is a simulation that nobody asked for.
    """
    place = parse_address(address, name="the address of the board service", listening=True)
    pair = None
    if certificate is not None and private_key is not None:
        require_pair(certificate, private_key)
        pair = private_key.read_bytes(), certificate.read_bytes()
    most = limits or Limits()
    servicer = BoardsServicer(Mirror(mirror), limits=most, simulation=simulation)
    if servicer.shelf.withheld:
        raise PrivacyError(
            f"{mirror}: a board there is a simulation: its noise can be reproduced from its seed. It is not "
            "served; --simulation serves it, marked as what it is"
        )
    options = server_options(max_request_bytes=MAX_REQUEST_BYTES, longest_seconds=most.stream_seconds)
    most_calls = most.streams + most.watchers + _MORE_CALLS
    port = GrpcPort(servicer.generic(), place, pair=pair, options=options, most_calls=most_calls)
    await servicer.look()
    await port.start()
    listening(port.port, servicer.counters)
    try:
        await asyncio.gather(servicer.poll(poll_seconds), port.run())
    finally:
        await servicer.end()
        await port.close(seconds=_FAREWELL_SECONDS)
