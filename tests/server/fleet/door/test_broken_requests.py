"""Requests that are none, over a real socket: the door closes them without a word in the log."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
import uvicorn

from fedboard.server.fleet.door.proxy import FleetProxy

SECONDS = 20.0
BROKEN_CHUNKS = (
    b"POST /v1/elsewhere HTTP/1.1\r\nHost: fleet\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\n5\r\n5\r\nhello\r\n0\r\n\r\n"
)


@pytest.fixture
def door() -> Iterator[tuple[int, FleetProxy]]:
    """Its port, and what counts."""
    listening = socket.create_server(("127.0.0.1", 0))
    proxy = FleetProxy(
        httpx.AsyncClient(), admitted=[], max_request_bytes=1000, max_bytes_per_minute=1_000_000
    )
    server = uvicorn.Server(
        uvicorn.Config(proxy, http="h11", ws="none", lifespan="off", access_log=False, log_config=None)
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    yield int(listening.getsockname()[1]), proxy
    server.should_exit = True
    thread.join(SECONDS)


def answered(port: int, content: bytes) -> bytes:
    """All that comes back until the door closes the connection."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as link:
        link.sendall(content)
        link.shutdown(socket.SHUT_WR)
        while part := link.recv(1 << 16):
            found += part
    return found


def test_a_body_that_breaks_off_in_its_chunks_is_refused_and_not_logged(
    door: tuple[int, FleetProxy], caplog: pytest.LogCaptureFixture
) -> None:
    port, proxy = door
    for _ in range(3):
        assert answered(port, BROKEN_CHUNKS).startswith(b"HTTP/1.1 4")

    assert answered(port, b"GET /docs HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\r\n").startswith(
        b"HTTP/1.1 404"
    )
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert sum(proxy.counts.values()) == 4
