"""The part of the door for devices that come without Flower: they fetch work and hand in answers.

A request is looked at if an admitted device has signed it just now, later than its last one; a body is read if it
is an answer that somebody waits for, and not larger than that may be. Devices are told when to come again, so that
ten thousand of them come one after the other.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from fedboard.common.wire import direct as wire
from fedboard.server.fleet.door.allowance import Allowance
from fedboard.server.fleet.door.mailbox import Mailbox, NoRoomError
from fedboard.server.fleet.door.node_signature import AdmittedNodes
from fedboard.server.fleet.door.replies import Event, Receive, Send, refuse
from fedboard.server.fleet.door.seen import Seen

WORK: Final = wire.WORK_PATH.encode()
ANSWER: Final = wire.ANSWER_PATH.encode()
_SIGNED: Final = frozenset(
    word.encode() for word in (wire.KEY, wire.TIME, wire.SIGNATURE, wire.DIGEST, wire.WORK)
)
_LENGTH: Final = b"content-length"
_PIECE: Final = 1 << 17
_MOST_DIGITS: Final = 15
_SECONDS: Final = 30.0
"""For a body of any size to begin with, and one more for each so many bytes."""
_BYTES_A_SECOND: Final = 1 << 14
_KEPT_SECONDS: Final = 5.0
"""A connection is kept for a device that comes again so soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderLimits:
    """What one device may send, whichever way it comes."""

    bytes: Allowance
    requests: Allowance
    answers: Allowance


@dataclass(slots=True, kw_only=True)
class DirectDoor:
    """Hands out work and takes answers. Whoever is not admitted learns nothing but that."""

    mailbox: Mailbox
    admitted: AdmittedNodes
    limits: SenderLimits
    seen: Seen
    polls_per_second: float
    """How many requests of all devices together are invited while there is nothing to do; > 0."""
    clock: Callable[[], float] = time.time
    _last: dict[bytes, int] = field(default_factory=dict)
    """Time of each device's last request, microseconds."""

    async def serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> int:
        """Serve one request; the status. It is known who is admitted."""
        found = self._verdict(scope)
        if isinstance(found, int):
            await refuse(send, found)
            return found
        request, length = found
        if scope["raw_path"] == WORK:
            return await self._hand_out(request, scope["headers"], send)
        status = await self._take(request, length, receive)
        await _head(send, status, [(_LENGTH, b"0"), *self._parting(scope["headers"])])
        await send({"type": "http.response.body", "body": b""})
        return status

    def _verdict(self, scope: MutableMapping[str, Any]) -> int | tuple[wire.Request, int]:
        """The status of a refusal, or what was asked and how long its body is."""
        if scope["method"] != "POST" or scope["query_string"]:
            return 404
        headers = _once_each(scope["headers"])
        if headers is None:
            return 400
        path = scope["raw_path"].decode("ascii")
        request = wire.Request.read(path, headers, self.admitted.keys, now=self.clock())
        if request is None:
            return 401
        if request.micros <= self._last.get(request.key, -1):
            return 409
        self._last[request.key] = request.micros
        answers = scope["raw_path"] == ANSWER
        limits = self.limits
        if not limits.requests.take(request.key, 1) or (answers and not limits.answers.take(request.key, 1)):
            return 503
        version = next((value for name, value in scope["headers"] if name == wire.VERSION.encode()), b"")
        self.seen.request(
            request.key, answers=answers, version=version, pause=max(self.pause, _stated(scope["headers"]))
        )
        length = int(headers[_LENGTH])
        return (request, length) if answers or length == 0 else 413

    @property
    def pause(self) -> float:
        """After how many seconds a device that has nothing to do is to come again, if it would not later."""
        return min(self.seen.direct / self.polls_per_second, wire.LONGEST_PAUSE)

    def present(self) -> list[bytes]:
        """Devices that are not overdue: each was here, and is to come again."""
        return [key for key in self.seen.here_directly() if key in self.admitted.keys]

    def forget_others(self) -> None:
        """Of devices that are no longer admitted nothing is kept."""
        self._last = {key: last for key, last in self._last.items() if key in self.admitted.keys}

    def _parting(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Header that closes a connection which would be idle for long: each that is open takes half a megabyte."""
        longer = max(self.pause, _stated(headers)) > _KEPT_SECONDS
        return [(b"connection", b"close")] if longer else []

    async def _hand_out(self, request: wire.Request, headers: list[tuple[bytes, bytes]], send: Send) -> int:
        if not request.has(b""):
            await refuse(send, 400)
            return 400
        work = self.mailbox.work_of(request.key)
        pause = (wire.PAUSE.encode(), f"{self.pause:.3f}".encode())
        if work is None:
            await _head(send, 204, [pause, *self._parting(headers)])
            await send({"type": "http.response.body", "body": b""})
            return 204
        message = work.message
        total = len(message.frame) + len(message.beside)
        if not self.limits.bytes.take(request.key, total):
            await refuse(send, 503)
            return 503
        told = {
            wire.WORK: work.name,
            wire.KIND: message.kind,
            wire.FRAME_BYTES: str(len(message.frame)),
            "content-length": str(total),
            "content-type": "application/octet-stream",
        }
        await _head(send, 200, [pause, *((name.encode(), value.encode()) for name, value in told.items())])
        for part in _pieces(message.frame, message.beside):  # each waits until the one before is taken
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return 200

    async def _take(self, request: wire.Request, length: int, receive: Receive) -> int:
        work = self.mailbox.expects(request.key, request.work)
        if work is None:
            return 410
        if length > min(work.largest, self.mailbox.largest):
            return 413
        if not self.limits.bytes.take(request.key, length):
            return 503
        try:
            async with asyncio.timeout(_SECONDS + length / _BYTES_A_SECOND) as within:
                with self.mailbox.arriving(request.key, within) as take:
                    content = await _body(receive, length, take)
        except NoRoomError:
            return 503
        except TimeoutError:
            return 408
        except ConnectionResetError:
            return 400
        if not request.has(content):
            return 400
        self.seen.received(request.key, length)
        return 200 if self.mailbox.put(request.key, work.name, content) else 410


def _stated(headers: list[tuple[bytes, bytes]]) -> float:
    """After how many seconds a device says that it comes again; 0 where it does not say."""
    return wire.seconds_of(next((value for name, value in headers if name == wire.PAUSE.encode()), b""))


def _once_each(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """The headers that count; None where two readers could take them for different requests, or where a body
    has no length.
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name == b"transfer-encoding" or (name in found and (name in _SIGNED or name == _LENGTH)):
            return None
        if name in _SIGNED or name == _LENGTH:
            found[name] = value
    length = found.get(_LENGTH, b"")
    return found if length.isdigit() and len(length) <= _MOST_DIGITS else None


def _pieces(*contents: bytes) -> Iterator[bytes]:
    for content in contents:
        yield from (content[start : start + _PIECE] for start in range(0, len(content), _PIECE))


async def _body(receive: Receive, length: int, take: Callable[[int], None]) -> bytes:
    """A body that is as long as it says; each part is kept once there is room for it."""
    found, more = bytearray(), True
    while more:
        event: Event = await receive()
        part = event.get("body", b"")
        # The server in front counts too.
        if event["type"] == "http.disconnect" or len(found) + len(part) > length:
            raise ConnectionResetError
        take(len(part))
        found += part
        more = event.get("more_body", False)
    return bytes(found)


async def _head(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
