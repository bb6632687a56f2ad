"""As much of HTTP/1.1 as a witness needs, with a bound on everything that whoever asks decides.

One event loop, one request of a connection at a time, connections kept alive. A request has to come in whole within
some seconds; bodies have a stated length; what is read otherwise by others (two lengths, chunks) is refused.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

MAX_HEAD_BYTES = 8192
_SECONDS = 20.0
"""For a request to come in whole, and for an answer to be taken."""
_IDLE_SECONDS = 75.0
"""Between two requests of a connection."""
_MOST_HEADERS = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back."""

    status: HTTPStatus
    content: bytes = b""
    kind: str = "text/plain; charset=utf-8"


Serve = Callable[[str, str, bytes], Answer]
"""(method, path, body) -> answer; called for one request at a time."""


class _BadRequestError(Exception):
    """A request that is not read on."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.answer = Answer(status, f"{status.phrase.lower()}\n".encode())


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    length: int
    keeps: bool


async def converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, serve: Serve, max_body: int
) -> None:
    """Answer the requests of one connection until it ends."""
    try:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            while await _one(reader, writer, serve=serve, max_body=max_body):
                pass
    finally:
        writer.close()


async def _one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, serve: Serve, max_body: int
) -> bool:
    """Answer one request; whether another may follow."""
    keeps = False
    try:
        async with asyncio.timeout(_IDLE_SECONDS):
            first = await reader.readexactly(1)
        async with asyncio.timeout(_SECONDS):
            asked = _parsed(first + await reader.readuntil(b"\r\n\r\n"))
            if asked.length > max_body:
                raise _BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            body = await reader.readexactly(asked.length)
        answer, keeps = serve(asked.method, asked.path, body), asked.keeps
    except asyncio.LimitOverrunError:
        answer = _BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE).answer
    except _BadRequestError as error:
        answer = error.answer
    writer.write(_written(answer, keeps=keeps))
    async with asyncio.timeout(_SECONDS):
        await writer.drain()
    return keeps


def _parsed(head: bytes) -> _Request:
    """The first line and the headers that count.

    Raises:
        _BadRequestError: two readers could take it for different requests, or it is none.
    """
    try:
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    except UnicodeDecodeError:
        raise _BadRequestError(HTTPStatus.BAD_REQUEST) from None
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or len(lines) > _MOST_HEADERS:
        raise _BadRequestError(HTTPStatus.BAD_REQUEST)
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name != name.strip() or (name == "content-length" and name in found):
            raise _BadRequestError(HTTPStatus.BAD_REQUEST)
        found[name] = value.strip()
    length = found.get("content-length", "0")
    if "transfer-encoding" in found or not (length.isascii() and length.isdigit() and len(length) < 16):
        raise _BadRequestError(HTTPStatus.BAD_REQUEST)
    keeps = words[2] == "HTTP/1.1" and found.get("connection", "").lower() != "close"
    return _Request(words[0], words[1], int(length), keeps)


def _written(answer: Answer, *, keeps: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.content)}",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if keeps else 'close'}",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + answer.content
