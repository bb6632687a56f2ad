"""Answers that the door itself gives, and small bodies that it reads itself."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]

SECONDS_BETWEEN_PARTS: Final = 30.0
REFUSALS: Final = {
    400: b"bad request",
    404: b"not found",
    401: b"not admitted",
    413: b"too large",
    408: b"too slow",
    409: b"older than another",
    502: b"away",
    503: b"busy",
}


class TooLargeError(Exception):
    """The body is longer than is taken."""


async def small_body(receive: Receive, *, largest: int) -> bytes:
    """Of a request of somebody who is not known.

    Raises:
        TooLargeError: it is longer.
        TimeoutError: it is not whole after some time.
        ConnectionResetError: whoever sent it has gone.
    """
    found, more = b"", True
    async with asyncio.timeout(SECONDS_BETWEEN_PARTS):
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise ConnectionResetError
            found += event.get("body", b"")
            if len(found) > largest:
                raise TooLargeError
            more = event.get("more_body", False)
    return found


async def refuse(send: Send, status: int) -> None:
    """A fixed answer for each status."""
    await answer(send, status, REFUSALS[status], kind=b"text/plain")


async def answer(send: Send, status: int, body: bytes, *, kind: bytes) -> None:
    """A whole answer."""
    # The connection is closed: what is left of the request is not read.
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
