"""The front over real sockets: bytes pass, and who holds connections or takes nothing harms nobody but himself."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fedboard.common.wire.addresses import Address
from fedboard.server.front.front import INSIDE, Front, bound
from fedboard.server.front.limits import ConnectionLimits

PATIENCE = 60.0


class Running:
    """A front in a thread, before a server that sends back what it gets, or ``n`` bytes on request ``n``."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.front, self.peers = Front(limits=limits), list[int]()
        self._loop, self._stop, self._ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))
        self._thread.start()
        self._ready.wait()

    @property
    def port(self) -> int:
        return self.front.port

    async def _serve(self) -> None:
        inner = await asyncio.start_server(self._answer, INSIDE, 0)
        await self.front.start(
            bound(Address("0.0.0.0", 0), name="it"), inside_port=inner.sockets[0].getsockname()[1]
        )
        self._ready.set()
        await self._stop.wait()
        await self.front.close()
        inner.close()
        await asyncio.sleep(0.05)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peers.append(writer.get_extra_info("peername")[1])
        try:
            while data := await reader.read(1 << 16):
                writer.write(bytes(int(data[1:])) if data.startswith(b"n") else data)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def started(**limits: float) -> Running:
            running = Running(ConnectionLimits(**({"connections": 100, "per_address": 10} | limits)))
            stack.callback(running.close)
            return running

        yield started


@pytest.fixture
def connect() -> Iterator[Callable[..., socket.socket]]:
    with ExitStack() as stack:

        def connected(running: Running, address: str = "127.0.0.1") -> socket.socket:
            one = socket.create_connection(
                (INSIDE, running.port), timeout=PATIENCE, source_address=(address, 0)
            )
            return stack.enter_context(one)

        yield connected


def is_closed(one: socket.socket) -> bool:
    """Waits for the end of a connection."""
    one.settimeout(PATIENCE)
    try:
        while one.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def echoes(one: socket.socket, content: bytes = b"hello") -> bool:
    try:
        one.sendall(content)
        return one.recv(len(content), socket.MSG_WAITALL) == content
    except OSError:
        return False


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_bytes_pass_both_ways_as_they_are(start: Start, connect: Callable[..., socket.socket]) -> None:
    one = connect(start())
    content = bytes(range(256)) * 20_000  # more than any buffer on the way

    sender = threading.Thread(target=one.sendall, args=(content,))
    sender.start()
    received = bytearray()
    while len(received) < len(content):
        received += one.recv(1 << 16)
    sender.join()

    assert received == content


def test_what_serves_can_ask_where_a_connection_comes_from(
    start: Start, connect: Callable[..., socket.socket]
) -> None:
    running = start()
    for number, address in enumerate(("127.0.0.1", "127.0.0.9")):
        assert echoes(connect(running, address))
        assert running.front.network_of(running.peers[number]) == address
    assert running.front.network_of(1) == "other"


def test_one_address_does_not_take_the_connections_of_another(
    start: Start, connect: Callable[..., socket.socket]
) -> None:
    running = start(connections=20, per_address=5, spared_seconds=1000.0)
    own = [connect(running) for _ in range(40)]

    until(lambda: running.front.counts.refused == 35)
    assert echoes(connect(running, "127.0.0.2"))
    assert sum(echoes(one) for one in own) == 5


def test_at_its_limit_an_address_still_gets_in_in_the_place_of_what_it_left_lying(
    start: Start, connect: Callable[..., socket.socket]
) -> None:
    running = start(connections=20, per_address=5, spared_seconds=0.0)
    idle = [connect(running) for _ in range(60)]

    assert echoes(connect(running))
    assert echoes(connect(running, "127.0.0.2"))
    assert running.front.counts.open <= 7
    assert is_closed(idle[0])


@pytest.mark.slow
def test_a_connection_that_sends_nothing_is_closed(
    start: Start, connect: Callable[..., socket.socket]
) -> None:
    assert is_closed(connect(start(handshake_seconds=0.2)))


@pytest.mark.slow
def test_a_connection_that_falls_silent_is_closed(
    start: Start, connect: Callable[..., socket.socket]
) -> None:
    running = start(idle_seconds=1.5)
    one = connect(running)
    assert echoes(one)

    assert is_closed(one)
    until(lambda: running.front.counts.open == 0)


@pytest.mark.slow
def test_a_reader_who_takes_nothing_is_closed_and_one_who_takes_is_not(
    start: Start, connect: Callable[..., socket.socket]
) -> None:
    running = start(stall_seconds=1.0)
    stalled = connect(running)
    stalled.sendall(b"n200000000")

    until(lambda: running.front.counts.closed == 1)

    until(lambda: running.front.counts.open == 0)
    assert echoes(connect(running))


def test_when_what_serves_hangs_up_so_does_the_front(
    start: Start, connect: Callable[..., socket.socket]
) -> None:
    running = start()
    one = connect(running)
    one.sendall(b"n77")
    assert len(one.recv(77, socket.MSG_WAITALL)) == 77

    one.shutdown(socket.SHUT_WR)

    assert is_closed(one)
    until(lambda: running.front.counts.open == 0)
