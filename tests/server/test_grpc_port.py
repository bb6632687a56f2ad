"""The port: calls that end grpcio's server, connections that do nothing, what strangers can log."""

import asyncio
import logging
import resource
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from fedboard.client.participation.connection import CallError
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import Address
from fedboard.common.messages.devices import Method
from fedboard.server import grpc_port
from fedboard.server.grpc_port import GrpcPort, most_connections, server_options
from tests.commands import until
from tests.server.fleet.open_devices import OpenDevices, open_devices, stalling

SECONDS = 20.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UNREADABLE = Method.WORK.path.encode().replace(b"Work", b"\xffork")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OpenDevices]:
    with open_devices(tmp_path, members=["ann"]) as found:
        yield found


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    head = len(content).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + content


def call(path: bytes, content: bytes = b"") -> bytes:
    """A whole call as it goes over a connection, its headers without compression."""
    headers = {b":method": b"POST", b":scheme": b"https", b":path": path, b":authority": b"fleet"}
    headers |= {b"content-type": b"application/grpc", b"te": b"trailers"}
    block = b"".join(
        b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in headers.items()
    )
    message = frame(1, 4, 1, block) + frame(0, 1, 1, b"\0" + len(content).to_bytes(4, "big") + content)
    return PREFACE + frame(4, 0, 0, b"") + message


def context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    made.set_alpn_protocols(["h2"])
    return made


def send(server: OpenDevices, content: bytes) -> None:
    """Say it, and wait until the server has nothing more to say about it; a server that just ends hears nothing."""
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as plain,
        context().wrap_socket(plain, do_handshake_on_connect=False) as link,
    ):
        link.do_handshake()  # here, so that a handshake that fails leaves no socket open
        link.sendall(content)
        link.unwrap()


def served(server: OpenDevices, *, seconds: float = SECONDS) -> float:
    """Seconds until a device that asks again and again is served."""
    began, ann = time.monotonic(), server.device("ann")
    while True:
        try:
            ann.receive()
            return time.monotonic() - began
        except Exception:
            assert time.monotonic() - began < seconds, "it serves nobody any more"
            time.sleep(0.01)


def test_the_server_goes_on_after_calls_whose_path_is_no_text(
    server: OpenDevices, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    port = server.port
    for _ in range(4):
        send(server, call(UNREADABLE))
        send(server, call(Method.WORK.path.encode(), b"\xff" * 5))
        served(server)

    assert server.port == port
    assert len(caplog.records) == 1, caplog.text
    assert "Traceback" not in caplog.text + capfd.readouterr().err


def test_an_answer_that_is_on_its_way_meanwhile_is_taken(server: OpenDevices) -> None:
    work = server.ask("ann", frame=b"x" * 1000)
    ann = server.device("ann")
    ann.receive()
    send(server, call(UNREADABLE))

    deadline = time.monotonic() + SECONDS
    while not (found := server.answers()):
        try:
            ann.send(work["ann"], b"mine")
        except Exception:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert found == [b"mine"]


def test_servers_that_finish_their_calls_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends one server after another does not fill the memory with those that have a call under way."""
    monkeypatch.setattr(grpc_port, "_MOST_OLD", 1)
    names = ("bob", "cid", "dan")
    with open_devices(tmp_path, members=("ann", *names), grace=60.0) as server:
        work = server.ask(*names)
        stalled = {name: stalling(b"x") for name in names}
        said = dict[str, str]()

        def upload(name: str) -> None:
            metadata = server.signed(name, Method.ANSWER, b"xy", work=work[name])
            said[name] = server.answer(metadata, stalled[name][0])

        threads = [threading.Thread(target=upload, args=(name,)) for name in names]
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda number=number: server.mailbox.held >= min(number, 1) + 1)
            send(server, call(UNREADABLE))
            served(server)
        for thread in threads[1:]:
            thread.join(SECONDS)

        assert list(said) == ["cid", "dan"]
        assert server.mailbox.held == 1, "the oldest may finish"
        for _, go_on in stalled.values():
            go_on.set()
        threads[0].join(SECONDS)


def idle_connections(server: OpenDevices, number: int, *, handshake: bool) -> ExitStack:
    """So many from one address, of which nothing more comes; their handshakes are done, or never begin."""
    with ExitStack() as stack:
        made = context()
        for _ in range(number):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS))
            if handshake:
                stack.enter_context(made.wrap_socket(plain))
        return stack.pop_all()


@pytest.mark.slow
@pytest.mark.parametrize("handshake", [False, True], ids=["silent", "handshakes"])
def test_2000_idle_connections_of_one_address_keep_nobody_waiting(
    server: OpenDevices, handshake: bool
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 6000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    with idle_connections(server, 2000, handshake=handshake):
        assert served(server) < 5.0
        assert served(server) < 5.0


def test_more_connections_than_there_is_room_for_are_refused_until_others_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them takes the files that answers and boards are written to."""
    monkeypatch.setattr(grpc_port, "most_connections", lambda: 40)
    with open_devices(tmp_path, members=["ann"]) as server:
        with idle_connections(server, 40, handshake=True), pytest.raises(CallError):
            server.device("ann").receive()

        assert served(server) < SECONDS


def test_two_servers_do_not_share_a_port(server: OpenDevices) -> None:
    async def start(address: Address) -> None:
        options = server_options(max_request_bytes=1000, longest_seconds=1.0)
        await GrpcPort((), address, pair=None, options=options).start()

    for address, advice in (
        (Address("127.0.0.1", server.port), "another process listens there"),
        (Address("192.0.2.1", 0), "this machine does not have that address"),
        (Address("nowhere.invalid", 0), "give another address"),
    ):
        with pytest.raises(InputError, match=advice):
            asyncio.run(start(address))


def test_an_account_that_may_open_next_to_no_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_port.resource, "getrlimit", lambda _: (256, 256))
    with pytest.raises(InputError, match="may open 256 files"):
        most_connections()
    monkeypatch.setattr(grpc_port.resource, "getrlimit", lambda _: (4096, 4096))
    assert most_connections() == 4096 - 512


def test_of_what_grpc_logs_only_what_strangers_can_cause_is_no_news() -> None:
    def told(message: object, error: BaseException | None = None) -> bool:
        kept = (type(error), error, None) if error is not None else None
        return grpc_port._is_news(logging.LogRecord("grpc", logging.ERROR, "", 1, message, (), kept))

    assert not told("Failed sending error status from server", RuntimeError("gone"))
    assert not told("Unexpected", UnicodeDecodeError("utf-8", b"\xff", 0, 1, ""))
    assert told("Unexpected", RuntimeError("a bug"))


def test_a_stranger_who_hangs_up_is_no_news_and_anything_else_is(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    try:
        gone = {"message": "Failed sending error status from server", "exception": RuntimeError("gone")}
        grpc_port._tell(loop, gone)
        assert caplog.records == []

        grpc_port._tell(
            loop, {"message": "Task exception was never retrieved", "exception": RuntimeError("bug")}
        )
        assert [record.levelname for record in caplog.records] == ["ERROR"]
    finally:
        loop.close()
