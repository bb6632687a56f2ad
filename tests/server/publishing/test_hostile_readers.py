"""Readers who hold downloads or connections and take nothing: they keep out nobody but themselves.

On the limits as they were (of all readers together, and none on connections) each of these fails.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import grpc
import numpy as np
import pytest

from fedboard.common.boards.boards_pb2 import Chunk, FetchRequest, WatchRequest
from fedboard.common.boards.layout import LATEST, file_name
from fedboard.common.boards.methods import FETCH, WATCH, method
from fedboard.server.publishing import service
from fedboard.server.publishing.limits import Limits
from tests.common.boards.boards import signed_file
from tests.server.from_address import reached_from

PATIENCE = 60.0
CONTENT = np.random.default_rng(0).bytes(5_000_000)
FILE = FetchRequest(name=file_name(hashlib.sha256(CONTENT).hexdigest()))
SMALL_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.max_receive_message_length", 1 << 24)]


@pytest.fixture
def mirror(tmp_path, key):
    """One file of several chunks, so that nobody holds all of it unread."""
    return signed_file(tmp_path, CONTENT, key=key)


@pytest.fixture
def channel() -> Iterator[Callable[[int], grpc.Channel]]:
    """``(port)`` to a channel of its own connection."""
    with ExitStack() as stack:

        def opened(port: int) -> grpc.Channel:
            options = [*SMALL_WINDOW, ("grpc.use_local_subchannel_pool", 1)]
            return stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}", options=options))

        yield opened


def unread(channel):
    """A download of which nothing more is read than comes by itself."""
    call = channel.unary_stream(method(FETCH), FetchRequest.SerializeToString, Chunk.FromString)
    return call(FILE, timeout=10 * PATIENCE)


def downloaded(channel):
    call = channel.unary_stream(method(FETCH), FetchRequest.SerializeToString, Chunk.FromString)
    return sum(len(chunk.content) for chunk in call(FILE, timeout=PATIENCE))


def latest(channel):
    call = channel.unary_stream(method(FETCH), FetchRequest.SerializeToString, Chunk.FromString)
    chunks = call(FetchRequest(name=LATEST), timeout=PATIENCE, wait_for_ready=True)
    return sum(len(chunk.content) for chunk in chunks)


def is_served(channel):
    try:
        return latest(channel) > 100
    except grpc.RpcError:
        return False


def until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_downloads_that_one_address_does_not_read_leave_room_for_others(mirror, serve, channel):
    running = serve(mirror.folder, limits=Limits(streams=12, streams_per_address=5))
    hostile = channel(running.port)
    held = [unread(hostile) for _ in range(60)]
    until(lambda: running.counters.rate_limited >= 55)

    with reached_from("127.0.0.2", running.port) as port:
        assert downloaded(channel(port)) == 5_000_000

    assert running.counters.streams == 5
    assert len(held) == 60


def test_a_download_that_stands_still_is_cut_and_its_call_is_over(mirror, serve, channel, monkeypatch):
    """With room for three calls in all: they are free again only if gRPC itself is done with them."""
    monkeypatch.setattr(service, "_LEAST_SECONDS", 0.3)
    monkeypatch.setattr(service, "_MORE_CALLS", 0)
    limits = Limits(streams=3, watchers=0, least_bytes_per_second=1e7)
    running = serve(mirror.folder, limits=limits)
    hostile = channel(running.port)
    held = [unread(hostile) for _ in range(3)]
    until(lambda: running.counters.requests[FETCH, "timeout"] >= 1)  # all three came over one connection

    until(lambda: running.counters.streams == 0)
    with pytest.raises(grpc.RpcError):
        list(held[0])
    until(lambda: is_served(channel(running.port)))
    assert len(held) == 3


def test_a_download_that_is_read_slowly_but_fast_enough_is_not_cut(mirror, serve, channel, monkeypatch):
    monkeypatch.setattr(service, "_LEAST_SECONDS", PATIENCE)
    running = serve(mirror.folder, limits=Limits(least_bytes_per_second=1e9))
    received = 0
    for part in unread(channel(running.port)):
        received += len(part.content)
        time.sleep(0.1)

    assert received == 5_000_000


def test_readers_who_wait_at_one_address_leave_room_for_others(mirror, serve, channel):
    running = serve(mirror.folder, limits=Limits(watchers=12, watchers_per_address=5))

    def watching(port):
        call = channel(port).unary_stream(
            method(WATCH), WatchRequest.SerializeToString, lambda content: content
        )
        return call(WatchRequest(), timeout=10 * PATIENCE)

    held = [watching(running.port) for _ in range(15)]
    until(lambda: running.counters.rate_limited >= 10)

    with reached_from("127.0.0.2", running.port) as port:
        assert len(next(iter(watching(port)))) > 100
    assert running.counters.watchers <= 6
    assert len(held) == 15


def test_the_rate_limit_is_of_an_address(mirror, serve, channel):
    limits = Limits(requests_per_second_per_address=0.001)
    running = serve(mirror.folder, limits=limits)
    assert latest(channel(running.port)) > 100
    with pytest.raises(grpc.RpcError) as refused:
        latest(channel(running.port))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    with reached_from("127.0.0.2", running.port) as port:
        assert latest(channel(port)) > 100
