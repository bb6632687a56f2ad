"""The gRPC service ``Devices``: admitted devices fetch work and hand in answers, strangers join.

A call is looked at if an admitted device has signed it just now, later than its last one; that stands in the
initial metadata, so no message is read before. An answer is read if somebody waits for it, and as far as it may be
large. Devices are told when to come again, so that ten thousand of them come one after the other. Whoever is not
admitted learns nothing but that.
"""

import asyncio
import hashlib
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError, Message

from fedboard.common.errors import StorageError
from fedboard.common.messages.devices import (
    CHUNK_BYTES,
    LONGEST_SECONDS,
    QUESTION_CHUNK_BYTES,
    SERVICE,
    Method,
    Signed,
    seconds_for,
)
from fedboard.common.messages.devices_pb2 import (
    AnswerChunk,
    AnswerReceipt,
    IntroduceReply,
    WorkHead,
    WorkPart,
    WorkRequest,
)
from fedboard.server.fleet.enrolment import Allowance, Enrolment
from fedboard.server.fleet.mailbox import Mailbox, NoRoomError, Work
from fedboard.server.fleet.register import Register

BAD, STRANGER, OLDER, TOO_LARGE, OVER, BUSY, SLOW, AWAY = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAVAILABLE,
)
"""All that is ever said of a call that is refused; there is no text beside it."""
_log = logging.getLogger(__name__)
_Message = TypeVar("_Message", bound=Message)
_PART_SECONDS: Final = 30.0
"""For the next message."""
_SLACK_SECONDS: Final = 60.0
"""By which a deadline may seem to be longer than the caller has set it: gRPC rounds it up, by 10 s of an hour."""


class RefusedCallError(Exception):
    """A call comes to nothing, for a reason that is a status and nothing more."""

    def __init__(self, status: grpc.StatusCode) -> None:
        """Keep the status."""
        super().__init__(status.name)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderLimits:
    """What one device may do in a minute."""

    bytes: Allowance = field(default_factory=lambda: Allowance(per_minute=1_000_000_000))
    """Of questions and answers."""
    requests: Allowance = field(default_factory=lambda: Allowance(per_minute=1_200))
    answers: Allowance = field(default_factory=lambda: Allowance(per_minute=600))


@dataclass(slots=True, kw_only=True)
class DevicesServicer:
    """The methods, for any ``grpc.aio`` server. All run in its event loop; other threads use the mailbox alone."""

    mailbox: Mailbox
    register: Register
    """Open for this service alone."""
    enrolment: Enrolment
    limits: SenderLimits = field(default_factory=SenderLimits)
    polls_per_second: float = 100.0
    """How many calls for work of all devices together are invited; > 0."""
    least_pause: float = 1.0
    """Seconds until a device comes again, however few there are; > 0."""
    clock: Callable[[], float] = time.time
    counts: Counter[str] = field(default_factory=Counter)
    """Calls by the name of their status."""
    _keys: dict[str, Ed25519PublicKey] = field(default_factory=dict)
    _state: tuple[int, int] | None = None
    """Of the register when these were read."""
    _last: dict[str, int] = field(default_factory=dict)
    """Time of each device's last call, microseconds."""
    _handing: dict[str, asyncio.Timeout] = field(default_factory=dict)
    """By device: the time that the question which is on its way to it may still take."""

    def generic(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """All methods by name. Each reads its messages itself, as bytes: the sender is known before, and of what it
        cannot read gRPC itself prints a traceback.
        """
        one, many = grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        methods = {
            Method.INTRODUCE: one(self._handler(self._introduce)),
            Method.JOIN: one(self._handler(self._join)),
            Method.WORK: many(self._handler(self._hand_out)),
            Method.ANSWER: one(self._handler(self._take)),
        }
        named = {method.value: handler for method, handler in methods.items()}
        return (grpc.method_handlers_generic_handler(SERVICE, named),)

    @property
    def pause(self) -> float:
        """After how many seconds a device is to come again."""
        return min(max(self.least_pause, self.mailbox.seen.n_here / self.polls_per_second), LONGEST_SECONDS)

    def _handler(
        self, serve: Callable[[Any], Awaitable[bytes | None]]
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        """One method for gRPC: what is refused ends with a status, and everything is counted."""

        async def answer(_: object, context: Any) -> bytes | None:
            try:
                found = await serve(context)
                self.counts[grpc.StatusCode.OK.name] += 1
                return found
            except RefusedCallError as error:
                status = error.status
            except NoRoomError:
                status = BUSY
            except TimeoutError:
                status = SLOW
            except (asyncio.CancelledError, grpc.aio.InternalError):  # the caller has gone
                self.counts[grpc.StatusCode.CANCELLED.name] += 1
                raise asyncio.CancelledError from None
            except Exception:  # its text is not for the caller
                _log.exception("a call of a device failed")
                status = grpc.StatusCode.INTERNAL
            self.counts[status.name] += 1
            await _end(context, status)
            return None

        return answer

    def signed(self, method: Method, context: Any) -> Signed:
        """Who calls; the call is one of its allowance from now on.

        Args:
            method: that is called.
            context: of the call.

        Raises:
            RefusedCallError: no admitted device has signed this just now, or it is to wait.
        """
        try:
            keys = self._admitted()
        except (sqlite3.Error, StorageError):
            raise RefusedCallError(AWAY) from None
        signed = Signed.read(method, context.invocation_metadata() or (), keys, now=self.clock())
        if signed is None:
            raise RefusedCallError(STRANGER)
        if signed.micros <= self._last.get(signed.key, -1):
            raise RefusedCallError(OLDER)
        self._last[signed.key] = signed.micros
        _require_deadline(context)
        answers = method is Method.ANSWER
        limits = self.limits
        if not limits.requests.take(signed.key, 1) or (answers and not limits.answers.take(signed.key, 1)):
            raise RefusedCallError(BUSY)
        return signed

    def _admitted(self) -> Mapping[str, Ed25519PublicKey]:
        """Public key of each member by its name, read anew whenever anybody has changed the register.

        Raises:
            sqlite3.Error: it is not known who is admitted, so nobody is to be let in.
        """
        if (state := self.register.state()) != self._state:
            names, known = [member.key for member in self.register.admitted()], self._keys
            self._keys = {
                name: known.get(name) or Ed25519PublicKey.from_public_bytes(bytes.fromhex(name))
                for name in names
            }
            self._state = state  # of devices that are no longer admitted nothing is kept
            self.mailbox.seen.forget_others(self._keys)
            self._last = {key: last for key, last in self._last.items() if key in self._keys}
        return self._keys

    async def _hand_out(self, context: Any) -> None:
        signed = self.signed(Method.WORK, context)
        async with asyncio.timeout(_PART_SECONDS) as within:
            if (older := self._handing.get(signed.key)) is not None:
                expire(older)
            self._handing[signed.key] = within
            try:
                content = await context.read()
                if content is grpc.aio.EOF or not signed.has(content):
                    raise RefusedCallError(BAD)
                pause = self.pause
                version = read_message(WorkRequest, content).version
                self.mailbox.seen.asks(signed.key, version=version, pause=pause)
                work = self.mailbox.work_of(signed.key)
                if work is not None and self._handing.get(signed.key) is within:
                    within.reschedule(asyncio.get_running_loop().time() + seconds_for(work.message.n_bytes))
                await self._hand(work, signed.key, context, pause)
            finally:
                if self._handing.get(signed.key) is within:
                    del self._handing[signed.key]

    async def _hand(self, work: Work | None, key: str, context: Any, pause: float) -> None:
        if work is None:
            await context.write(WorkPart(head=WorkHead(pause_seconds=pause)).SerializeToString())
            return
        message = work.message
        if not self.limits.bytes.take(key, message.n_bytes):
            raise RefusedCallError(BUSY)
        head = WorkHead(
            work=work.name,
            kind=message.kind,
            frame_bytes=len(message.frame),
            total_bytes=message.n_bytes,
            pause_seconds=pause,
        )
        await context.write(WorkPart(head=head).SerializeToString())
        for content in (message.frame, message.beside):
            for start in range(0, len(content), QUESTION_CHUNK_BYTES):
                part = WorkPart(chunk=content[start : start + QUESTION_CHUNK_BYTES])
                await context.write(part.SerializeToString())  # waits until the one before is taken

    async def _take(self, context: Any) -> bytes:
        signed = self.signed(Method.ANSWER, context)
        self.mailbox.seen.answers(signed.key)
        work = self.mailbox.expects(signed.key, signed.work)
        if work is None:
            raise RefusedCallError(OVER)
        largest = min(work.largest, self.mailbox.largest)
        content, digest = bytearray(), hashlib.sha256()
        async with self._arriving(signed.key, seconds_for(largest)) as take:
            async for chunk in chunks_of(context):
                if len(content) + len(chunk) > largest:
                    raise RefusedCallError(TOO_LARGE)
                if not self.limits.bytes.take(signed.key, len(chunk)):
                    raise RefusedCallError(BUSY)
                take(len(chunk))
                digest.update(chunk)
                content += chunk
        if digest.hexdigest() != signed.digest:
            raise RefusedCallError(BAD)
        if not self.mailbox.put(signed.key, signed.work, bytes(content)):
            raise RefusedCallError(OVER)
        return bytes(AnswerReceipt().SerializeToString())

    @asynccontextmanager
    async def _arriving(self, key: str, seconds: float) -> AsyncIterator[Callable[[int], None]]:
        """Room for an answer, until it is here, its device sends another, or nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds) as within:

            def give_up() -> None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(expire, within)

            with self.mailbox.arriving(key, give_up) as take:
                yield take

    async def _introduce(self, context: Any) -> bytes:
        self._require_heard(context)
        return bytes(IntroduceReply(content=self.enrolment.introduction).SerializeToString())

    async def _join(self, context: Any) -> bytes:
        self._require_heard(context)
        async with asyncio.timeout(_PART_SECONDS):
            content = await context.read()
        if content is grpc.aio.EOF:
            raise RefusedCallError(BAD)
        try:
            reply = await self.enrolment.join(content)
        except (sqlite3.Error, StorageError):
            raise RefusedCallError(AWAY) from None
        return bytes(reply.SerializeToString())

    def _require_heard(self, context: Any) -> None:
        """Strangers are heard so often and no more."""
        _require_deadline(context)
        if not self.enrolment.hears(context.peer()):
            raise RefusedCallError(BUSY)


async def chunks_of(context: Any) -> AsyncIterator[bytes]:
    """What comes in chunks, each full but the last: so many messages as its bytes need, and no more.

    Raises:
        RefusedCallError: a message is no such chunk.
        TimeoutError: the next one did not come.
    """
    last = False
    while True:
        async with asyncio.timeout(_PART_SECONDS):
            message = await context.read()
        if message is grpc.aio.EOF:
            return
        chunk = read_message(AnswerChunk, message).content
        if last or not 0 < len(chunk) <= CHUNK_BYTES:
            raise RefusedCallError(BAD)
        last = len(chunk) < CHUNK_BYTES
        yield chunk


def read_message(kind: type[_Message], content: bytes) -> _Message:
    """A message from anybody.

    Raises:
        RefusedCallError: these bytes are none.
    """
    try:
        found: _Message = kind.FromString(content)
    except DecodeError:
        raise RefusedCallError(BAD) from None
    return found


def expire(within: asyncio.Timeout) -> None:
    """Let a time be over, if it is not yet; in the thread of its loop."""
    with suppress(RuntimeError):  # it is over already
        within.reschedule(0.0)


def _require_deadline(context: Any) -> None:
    """Without one, a call whose caller takes nothing of what it is sent would not end."""
    left = context.time_remaining()
    if left is None or left > LONGEST_SECONDS + _SLACK_SECONDS:
        raise RefusedCallError(BAD)


async def _end(context: Any, status: grpc.StatusCode) -> None:
    """End a call with a status; where the caller takes nothing, at the deadline of the call."""
    try:
        await context.abort(status, "")
    except grpc.aio.InternalError:
        raise asyncio.CancelledError from None
