"""The only door that devices see: it lets the fleet's own requests through to the SuperLink, and nothing else.

Flower serves three APIs on one port, and node authentication guards only ``/v1/fleet``: whoever reaches the others
can start a run (its code runs on the server) or take the running task's place. So the SuperLink listens on
127.0.0.1 and this proxy forwards an exact list of paths, and only what an admitted node has signed. Everything
else gets a fixed answer before its body is read, and is counted.
"""

import asyncio
import json
import sqlite3
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import h11
import httpx

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.server.fleet.door.allowance import Allowance
from fedboard.server.fleet.door.direct import ANSWER, WORK, DirectDoor, SenderLimits
from fedboard.server.fleet.door.enrolment import INTRODUCTION, JOIN, Enrolment
from fedboard.server.fleet.door.mailbox import Mailbox
from fedboard.server.fleet.door.node_signature import AdmittedNodes
from fedboard.server.fleet.door.replies import (
    SECONDS_BETWEEN_PARTS,
    Event,
    Receive,
    Send,
    TooLargeError,
    refuse,
)
from fedboard.server.fleet.door.seen import Seen
from fedboard.server.front.front import FrontCounts

FORWARDED: Final = frozenset(
    f"/v1/fleet/{name}".encode()
    for name in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "pull-object",
        "push-object",
        "confirm-message-received",
        "get-run",
        "get-fab",
    )
)
"""What a node asks for. Registration is not among it: the server's configuration says who is admitted."""
_REQUEST_HEADERS: Final = frozenset({b"content-type", b"accept", b"accept-encoding", b"content-length"})
_RESPONSE_HEADERS: Final = frozenset({b"content-type", b"content-length", b"content-encoding"})
_FLOWER: Final = b"flwr-"
_OBJECTS: Final = b"/v1/fleet/push-object"
_ANSWERS: Final = b"/v1/fleet/push-messages"
_VERSION: Final = b"fedboard-version"
_MOST_OTHER_BYTES: Final = 1_000_000
"""Of a request that brings no part of an answer: it names parts, 64 bytes each."""
_MOST_DIGITS: Final = 15


class _BusyError(Exception):
    """The node has sent as much as it may for now."""


class FleetProxy:
    """An ASGI application in front of one SuperLink."""

    def __init__(
        self,
        upstream: httpx.AsyncClient,
        *,
        admitted: Iterable[str],
        max_request_bytes: int,
        max_bytes_per_minute: int,
        max_requests_per_minute: int = 6000,
        max_answers_per_minute: int = 600,
        polls_per_second: float = 100.0,
        look: Callable[[], Iterable[str] | None] = lambda: None,
        enrolment: Enrolment | None = None,
    ) -> None:
        """Make ready.

        Args:
            upstream: with the SuperLink as its base address.
            admitted: public keys of the nodes, PEM text.
            max_request_bytes: longer requests are refused.
            max_bytes_per_minute: of one node, in all its requests.
            max_requests_per_minute: of one node.
            max_answers_per_minute: of one node.
            polls_per_second: requests for work of devices that come without Flower, of all together.
            look: before each request: public keys of the nodes where others are admitted than before, else None.
            enrolment: takes devices that join; None: there are none.
        """
        self._upstream = upstream
        self._admitted = AdmittedNodes(admitted)
        self._max_request_bytes = max_request_bytes
        self._allowance = Allowance(per_minute=max_bytes_per_minute)
        self._requests = Allowance(per_minute=max_requests_per_minute)
        self._answers = Allowance(per_minute=max_answers_per_minute)
        self._look = look
        self.enrolment = enrolment
        self.seen = Seen()
        self.direct = DirectDoor(
            mailbox=Mailbox(),
            admitted=self._admitted,
            limits=SenderLimits(bytes=self._allowance, requests=self._requests, answers=self._answers),
            seen=self.seen,
            polls_per_second=polls_per_second,
        )
        self.counts: Counter[str] = Counter()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        try:
            await self._serve(scope, receive, send)
        except h11.LocalProtocolError:  # its body is none, which the server below has answered already
            self.counts["400"] += 1
            await _gone(receive)

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if self.enrolment is not None and scope["raw_path"] in (INTRODUCTION, JOIN):
            self.counts[str(await self.enrolment.serve(scope, receive, send))] += 1
            return
        if scope["raw_path"] in (WORK, ANSWER):
            self.counts[str(await self._direct(scope, receive, send))] += 1
            return
        found = self._verdict(scope)
        if isinstance(found, int):
            status = found
            await refuse(send, status)
        else:
            status = await self._forward(scope, found, receive, send)
        self.counts[str(status)] += 1

    async def _direct(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> int:
        if self._is_up_to_date():
            return await self.direct.serve(scope, receive, send)
        await refuse(send, 503)
        return 503

    def _verdict(self, scope: MutableMapping[str, Any]) -> int | bytes:
        """The status of a refusal, or the public key of the node whose request may go on."""
        # The path as it was sent: nothing is decoded or resolved that could lead elsewhere.
        if scope["method"] != "POST" or scope["raw_path"] not in FORWARDED or scope["query_string"]:
            return 404
        headers = _once_each(scope["headers"])
        if headers is None:
            return 400
        if not self._is_up_to_date():
            return 503
        sender = self._admitted.sender(headers)
        if sender is None:
            return 401
        answers = scope["raw_path"] == _ANSWERS
        if not self._requests.take(sender, 1) or (answers and not self._answers.take(sender, 1)):
            return 503
        self.seen.request(sender, answers=answers, version=_version(scope["headers"]))
        return 413 if int(headers.get(b"content-length", b"0")) > self._largest(scope) else sender

    def _is_up_to_date(self) -> bool:
        """Whether it is known who is admitted now; where it is not, nobody is let in."""
        try:
            keys = self._look()
            if keys is not None:
                self._admitted.replace(keys)
                self.seen.forget_others(self._admitted.names)
                self.direct.forget_others()
        except (sqlite3.Error, InputError):
            return False
        return True

    def _largest(self, scope: MutableMapping[str, Any]) -> int:
        whole = self._max_request_bytes
        return whole if scope["raw_path"] == _OBJECTS else min(whole, _MOST_OTHER_BYTES)

    async def _forward(
        self, scope: MutableMapping[str, Any], sender: bytes, receive: Receive, send: Send
    ) -> int:
        kept = [
            (name, value)
            for name, value in scope["headers"]
            if name in _REQUEST_HEADERS or name.startswith(_FLOWER)
        ]
        body = self._body(receive, sender, self._largest(scope))
        request = self._upstream.build_request(
            "POST", scope["raw_path"].decode("ascii"), headers=kept, content=body
        )
        started = False
        try:
            response = await self._upstream.send(request, stream=True)
            try:
                await send(_head(response.status_code, response.headers.raw))
                started = True
                async for part in response.aiter_raw():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            finally:
                await response.aclose()
            return response.status_code
        except TooLargeError:
            status = 413
        except _BusyError:
            status = 503
        except TimeoutError:
            status = 408
        except (httpx.HTTPError, OSError):
            status = 502
        if not started:
            await refuse(send, status)
        return status

    async def _body(self, receive: Receive, sender: bytes, largest: int) -> AsyncIterator[bytes]:
        taken, more = 0, True
        while more:
            event = await asyncio.wait_for(receive(), SECONDS_BETWEEN_PARTS)
            if event["type"] == "http.disconnect":
                raise ConnectionResetError
            part = event.get("body", b"")
            taken += len(part)
            if taken > largest:
                raise TooLargeError
            if not self._allowance.take(sender, len(part)):
                raise _BusyError
            self.seen.received(sender, len(part))
            more = event.get("more_body", False)
            yield part


async def _gone(receive: Receive) -> None:
    """Wait until the sender is: otherwise the log is told of every answer that was not given."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS_BETWEEN_PARTS):
            while (await receive())["type"] != "http.disconnect":
                continue


def _version(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return next((value for name, value in headers if name == _VERSION), b"")


def _once_each(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """The headers that count; None where two readers could take them for different requests."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name not in _REQUEST_HEADERS and name != b"transfer-encoding" and not name.startswith(_FLOWER):
            continue
        if name in found:
            return None
        found[name] = value
    length = found.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        return None
    return None if b"transfer-encoding" in found and b"content-length" in found else found


def _head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> Event:
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() in _RESPONSE_HEADERS or name.lower().startswith(_FLOWER)
    ]
    return {"type": "http.response.start", "status": status, "headers": kept}


async def write_counts(
    proxy: FleetProxy, path: Path, *, connections: FrontCounts | None = None, seconds: float = 5.0
) -> None:
    """Keep a file with what was counted: ``{"responses": {status: number}, "connections": {...}}``."""
    written: dict[str, dict[str, int]] | None = None
    while True:
        counts = {"responses": dict(proxy.counts)}
        if proxy.enrolment is not None:
            counts["joins"] = dict(proxy.enrolment.counts)
        if connections is not None:
            counts["connections"] = asdict(connections)
        if counts != written:
            written = counts
            write_atomically(path, json.dumps(counts).encode())
        await asyncio.sleep(seconds)


async def write_seen(proxy: FleetProxy, path: Path) -> None:
    """Keep a file with what was seen of each device."""
    while True:
        proxy.seen.write(path)
        await asyncio.sleep(proxy.seen.pause)


def superlink_client(*, port: int, authority: Path) -> httpx.AsyncClient:
    """A client of the SuperLink on this machine that checks its certificate."""
    return httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{port}",
        verify=ssl.create_default_context(cafile=str(authority)),
        timeout=httpx.Timeout(60.0, connect=5.0),
        limits=httpx.Limits(max_connections=256, max_keepalive_connections=64),
        trust_env=False,
    )
