"""Calls whose path is no text: grpcio's server ends at one, and the service must not."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from fedboard.common.boards.boards_pb2 import SignedManifest, WatchRequest
from fedboard.common.boards.methods import GET, LATEST, ROOT, WATCH, method
from fedboard.server.grpc_port import _is_news, _tell
from fedboard.server.publishing.mirror import Mirror
from tests.common.boards.boards import RUN, chain, keys, write_boards
from tests.server.publishing.running import RunningBoards, Signing

SECONDS = 20.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UNREADABLE = method(LATEST).encode().replace(b"Latest", b"\xffatest")


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
            ask = channel.unary_unary(method(LATEST), bytes, SignedManifest.FromString)
            try:
                return bytes(ask(b"", timeout=SECONDS).content)
            except grpc.RpcError:
                assert time.monotonic() < ends, "it serves nobody any more"


def test_the_service_goes_on_after_calls_whose_path_is_no_text(
    mirror: Mirror, serve: Callable[..., RunningBoards]
) -> None:
    service = serve(mirror.folder)
    for _ in range(5):
        send(service, call(UNREADABLE))

        assert b'"version":4' in latest(service)


def test_strangers_do_not_fill_the_log(
    mirror: Mirror,
    serve: Callable[..., RunningBoards],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    service = serve(mirror.folder)
    for _ in range(5):
        send(service, call(UNREADABLE))
        for name in (LATEST, ROOT, GET, WATCH):
            send(service, call(method(name).encode(), b"\xff" * 5))
        latest(service)

    assert len(caplog.records) == 1, caplog.text
    assert "Traceback" not in caplog.text
    assert "Traceback" not in capfd.readouterr().err, "gRPC prints some itself"


@pytest.mark.parametrize("name", [LATEST, ROOT, GET, WATCH])
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


def test_of_what_grpc_logs_only_what_strangers_can_cause_is_no_news() -> None:
    def told(message: object, error: BaseException | None = None) -> bool:
        kept = (type(error), error, None) if error is not None else None
        return _is_news(logging.LogRecord("grpc", logging.ERROR, "", 1, message, (), kept))

    assert not told("Failed sending error status from server", RuntimeError("gone"))
    assert not told("Unexpected", UnicodeDecodeError("utf-8", b"\xff", 0, 1, ""))
    assert told("Unexpected", RuntimeError("a bug"))


def test_a_stranger_who_hangs_up_is_no_news_and_anything_else_is(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    try:
        _tell(loop, {"message": "Failed sending error status from server", "exception": RuntimeError("gone")})
        assert caplog.records == []

        _tell(loop, {"message": "Task exception was never retrieved", "exception": RuntimeError("a bug")})
        assert [record.levelname for record in caplog.records] == ["ERROR"]
    finally:
        loop.close()


def test_who_waits_for_the_next_board_gets_it_all_the_same(
    tmp_path: Path, serve: Callable[..., RunningBoards]
) -> None:
    boards = chain(3)
    private, _ = keys(tmp_path / "keys")
    folder = write_boards(tmp_path / "boards", boards[:2])
    service = serve(tmp_path / "mirror", signing=Signing(boards=folder, key=private, run=RUN))
    channel = grpc.insecure_channel(f"127.0.0.1:{service.port}")
    watch = channel.unary_stream(method(WATCH), WatchRequest.SerializeToString, SignedManifest.FromString)
    news = watch(WatchRequest(), timeout=SECONDS)
    assert b'"version":3' in next(news).content

    send(service, call(UNREADABLE))
    write_boards(folder, boards[2:])

    assert b'"version":4' in next(news).content
    news.cancel()
    channel.close()
