"""A bad network between devices and their server: requests and answers get lost, cut, late, doubled, replayed.

It ends TLS with the server's own certificate and passes whole HTTP requests on, one connection for each, so that
what goes wrong is what a network or a hostile box on the way can do without breaking TLS between honest ends.
"""

import asyncio
import contextlib
import random
import ssl
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_FAULTS = ("lose request", "lose answer", "cut request", "cut answer", "delay", "double", "replay later")
_LONGEST_HEAD = 1 << 16
_SECONDS = 60.0


@dataclass
class Link:
    """Listens on ``port`` and passes on to ``upstream``; ``share`` of the requests meet a fault."""

    port: int
    upstream: int
    folder: Path
    chance: random.Random
    share: float
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Read the certificates."""
        self._inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._inside.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        self._outside = ssl.create_default_context(cafile=str(self.folder / "authority.pem"))
        self._loop = asyncio.new_event_loop()
        self._later: set[asyncio.Task[bytes]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Link":
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(10)

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_later(0.2, self._loop.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda *_: None)  # connections that are cut are the purpose
        listening = asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._inside)
        server = self._loop.run_until_complete(listening)
        self._loop.run_forever()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            request = await asyncio.wait_for(_read_request(reader), _SECONDS)
            answer = await self._passed_on(request)
            writer.write(answer)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def _passed_on(self, request: bytes) -> bytes:
        fault = self.chance.choice(_FAULTS) if self.chance.random() < self.share else ""
        self.counts[fault or "passed on"] += 1
        match fault:
            case "lose request":
                return b""
            case "cut request":
                return await self._forward(request[: self.chance.randrange(len(request))])
            case "delay":
                await asyncio.sleep(self.chance.uniform(0.2, 3.0))
            case "double":
                await self._forward(request)
            case "replay later":
                task = self._loop.create_task(self._again(request))
                self._later.add(task)
                task.add_done_callback(self._later.discard)
        answer = await self._forward(request)
        if fault == "lose answer":
            return b""
        return answer[: self.chance.randrange(len(answer))] if fault == "cut answer" and answer else answer

    async def _again(self, request: bytes) -> bytes:
        await asyncio.sleep(self.chance.uniform(0.5, 6.0))
        return await self._forward(request)

    async def _forward(self, request: bytes) -> bytes:
        """The whole answer; nothing where the server is away."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream, ssl=self._outside)
            writer.write(request)
            await writer.drain()
            if b"\r\n\r\n" not in request or len(request) < _length(request):
                writer.transport.abort()  # a request that was cut: the server sees the connection go
                return b""
            answer = await asyncio.wait_for(reader.read(-1), _SECONDS)
            writer.close()
            return answer
        except (TimeoutError, OSError):
            return b""


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """One request, with its last line of headers asking for the end of the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    if len(head) > _LONGEST_HEAD:
        raise ValueError("a head that is too long")
    lines = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
    head = b"\r\n".join([*lines, b"Connection: close", b"", b""])
    return head + await reader.readexactly(_length(head) - len(head))


def _length(request: bytes) -> int:
    """Of head and body together, as the head says."""
    head = request.partition(b"\r\n\r\n")[0]
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(head) + 4 + int(line.partition(b":")[2])
    return len(head) + 4
