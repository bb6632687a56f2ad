"""Calls whose path is no text: grpcio's server ends at one, and the service must not."""

import socket
import time
from collections.abc import Callable

import grpc
import pytest

from fedboard.common.boards.boards_pb2 import Chunk, FetchRequest
from fedboard.common.boards.layout import LATEST
from fedboard.common.boards.methods import COSIGN, FETCH, PENDING, WATCH, method
from fedboard.server.publishing.mirror import Mirror
from tests.server.publishing.running import RunningBoards

SECONDS = 20.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UNREADABLE = method(FETCH).encode().replace(b"Fetch", b"\xffetch")


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    head = len(content).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + content


def call(path: bytes, content: bytes = b"") -> bytes:
    """A whole call as it goes over a connection, its headers without compression."""
    headers = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"boards"}
    headers |= {b"content-type": b"application/grpc", b"te": b"trailers"}
    block = b"".join(
        b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in headers.items()
    )
    message = frame(1, 4, 1, block) + frame(0, 1, 1, b"\0" + len(content).to_bytes(4, "big") + content)
    return PREFACE + frame(4, 0, 0, b"") + message


def send(service: RunningBoards, content: bytes) -> None:
    """Say it, and wait until the service has nothing more to say about it."""
    ends = time.monotonic() + SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", service.port), timeout=SECONDS) as link:
                link.sendall(content)
                link.shutdown(socket.SHUT_WR)
                while link.recv(1 << 16):
                    pass
                return
        except OSError:  # one server has ended, the next is about to begin
            assert time.monotonic() < ends, "it serves nobody any more"


def latest(service: RunningBoards) -> bytes:
    """By a reader who asks again: a call that comes just as the server ends is lost."""
    ends = time.monotonic() + SECONDS
    while True:
        with grpc.insecure_channel(f"127.0.0.1:{service.port}") as channel:
            ask = channel.unary_stream(method(FETCH), FetchRequest.SerializeToString, Chunk.FromString)
            try:
                return b"".join(chunk.content for chunk in ask(FetchRequest(name=LATEST), timeout=SECONDS))
            except grpc.RpcError:
                assert time.monotonic() < ends, "it serves nobody any more"


def test_the_service_goes_on_after_calls_whose_path_is_no_text(
    mirror: Mirror, serve: Callable[..., RunningBoards]
) -> None:
    service = serve(mirror.folder)
    for _ in range(5):
        send(service, call(UNREADABLE))

        assert rb"\"version\":4" in latest(service)


@pytest.mark.parametrize("name", [FETCH, WATCH, PENDING, COSIGN])
def test_what_is_no_request_is_refused_with_a_word(
    mirror: Mirror, serve: Callable[..., RunningBoards], name: str
) -> None:
    service = serve(mirror.folder)
    with (
        grpc.insecure_channel(f"127.0.0.1:{service.port}") as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        list(channel.unary_stream(method(name))(b"\xff" * 5, timeout=SECONDS))

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "malformed"
