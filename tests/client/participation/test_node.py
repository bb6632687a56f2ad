"""A device: what it does with what a hostile, broken or absent server says, and how long it waits."""

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedboard.client.participation.connection import CallError, ServerConnection, Trouble
from fedboard.client.participation.node import Node, pause_after
from fedboard.client.participation.policy import Server as ServerSection
from fedboard.client.participation.rounds import Gate, RatingSource
from fedboard.common.messages import devices as wire
from fedboard.common.messages.devices import QUESTION_CHUNK_BYTES, DeviceKey, Method
from fedboard.common.messages.devices_pb2 import AnswerChunk, WorkHead, WorkPart
from fedboard.common.messages.question import refusal
from fedboard.common.messages.refusals import Refusal
from fedboard.server import tls
from fedboard.server.tls import make_authority
from tests.server.vouched import vouched_pair

LARGEST = 1 << 20
TAKEN = [b""]
"""An answer is taken."""


def head(**said: Any) -> bytes:
    usual: dict[str, Any] = {"work": "abc", "kind": "query.round", "frame_bytes": 5, "total_bytes": 5}
    return WorkPart(head=WorkHead(**{**usual, "pause_seconds": 1.0, **said})).SerializeToString()


def work(body: bytes = b"frame", **said: Any) -> list[bytes]:
    """A question."""
    sizes = {"frame_bytes": len(body), "total_bytes": len(body)}
    parts = (body[at : at + QUESTION_CHUNK_BYTES] for at in range(0, len(body), QUESTION_CHUNK_BYTES))
    return [head(**{**sizes, **said}), *(WorkPart(chunk=part).SerializeToString() for part in parts)]


def nothing(pause: float = 7.0) -> list[bytes]:
    """Nothing to do."""
    return [WorkPart(head=WorkHead(pause_seconds=pause)).SerializeToString()]


@dataclass
class Server:
    """Says what it is told to, over TLS, to one call after the other."""

    folder: Path
    port: int = 0
    host: str = "127.0.0.1"
    says: list[Sequence[bytes] | grpc.StatusCode] = field(default_factory=list)
    heard: list[tuple[str, dict[str, Any], bytes]] = field(default_factory=list)

    def settings(self) -> ServerSection:
        return ServerSection(
            address=f"{self.host}:{self.port}",
            authority=self.folder / "authority.pem",
            key=self.folder / "device.key",
            max_question_megabytes=1,
        )

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def answer(messages: Iterable[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            sent = b"".join(messages)
            self.heard.append((call.method, dict(call.invocation_metadata), sent))
            said = self.says.pop(0)
            if isinstance(said, grpc.StatusCode):
                context.abort(said, "a text of the server")
            yield from said

        return grpc.stream_stream_rpc_method_handler(answer)


class Anything(grpc.GenericRpcHandler):
    """Every method."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return self.server.service(handler_call_details)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    vouched_pair(folder)
    DeviceKey().write(folder)
    return folder


@contextmanager
def serving(folder: Path, host: str = "127.0.0.1") -> Iterator[Server]:
    found = Server(folder, host=host)
    with ThreadPoolExecutor() as threads:
        behind = grpc.server(threads, handlers=[Anything(found)])
        pair = [((folder / "server.key").read_bytes(), (folder / "server.pem").read_bytes())]
        found.port = behind.add_secure_port(f"{host}:0", grpc.ssl_server_credentials(pair))
        behind.start()
        yield found
        behind.stop(None).wait()


@pytest.fixture
def server(files: Path) -> Iterator[Server]:
    with serving(files) as found:
        yield found


@contextmanager
def broken() -> Iterator[tuple[RatingSource, Gate]]:
    raise RuntimeError("rated 5.0: 'A secret film'")
    yield


Opens = Callable[[], AbstractContextManager[tuple[RatingSource, Gate]]]


@contextmanager
def node(
    server: Server, says: Iterable[Sequence[bytes] | grpc.StatusCode], opens: Opens = broken
) -> Iterator[Node]:
    server.says.extend(says)
    made = Node(server.settings(), opens)
    try:
        yield made
    finally:
        made._connection.close()


def answered(server: Server, number: int = 1) -> bytes:
    """The bytes of an answer that was handed in, in one chunk."""
    path, _, message = server.heard[number]
    assert path == Method.ANSWER.path
    return bytes(AnswerChunk.FromString(message).content)


def test_a_device_without_work_comes_again_when_the_server_says(server: Server) -> None:
    with node(server, [nothing()]) as device:
        assert 0.8 * 7 <= device.turn() <= 1.2 * max(7, 4 * device._took)  # later where the server is slow
        assert device._connection._channel is None, "closed where the pause is long"


@pytest.mark.parametrize("pause", [0.0, -1.0, float("nan"), float("inf"), 1e300])
def test_no_server_makes_a_device_ask_without_a_pause_or_never_again(server: Server, pause: float) -> None:
    with node(server, [nothing(pause)]) as device:
        assert 0.04 <= device.turn() <= 1.2 * 3600


def test_a_call_is_signed_and_names_the_device(server: Server) -> None:
    with node(server, [work(), TAKEN]) as device:
        device.turn()

    key = DeviceKey.load(server.folder / "device.key")
    keys = {key.public.hex(): key._key.public_key()}
    (path, asked, request), (_, handed_in, _) = server.heard
    assert path == Method.WORK.path
    now = int(asked[wire.TIME]) / 1e6
    read = wire.Signed.read(Method.WORK, asked.items(), keys, now=now)
    assert read is not None
    assert read.has(request)
    answer = wire.Signed.read(Method.ANSWER, {**handed_in, wire.WORK: "abc"}.items(), keys, now=now)
    assert answer is None, "the name of the work is none of ours"
    assert handed_in[wire.WORK] == "abc"


def test_what_goes_wrong_on_the_device_is_told_as_a_code(server: Server) -> None:
    with node(server, [work(), TAKEN]) as device:
        device.turn()

    assert b"secret" not in answered(server)
    assert answered(server) == refusal(Refusal.INTERNAL)
    assert (device.tally.asked, device.tally.answered, device.tally.refused) == (1, 1, 1)


UNREAD = {
    "a message beyond the limit": (work(b"x" * (LARGEST + (1 << 16) + 1)), Refusal.TOO_LARGE),
    "one that is said to be endless": ([head(total_bytes=1 << 63)], Refusal.TOO_LARGE),
    "a kind that is unknown": (work(kind="query.run-this"), Refusal.MALFORMED),
    "a greeting": (work(b"", kind="query.hello"), Refusal.MALFORMED),
    "a question with a board beside it": (work(b"frameboard", frame_bytes=5), Refusal.MALFORMED),
}


@pytest.mark.parametrize(("said", "code"), UNREAD.values(), ids=UNREAD)
def test_what_is_no_question_of_ours_is_answered_with_a_code_and_opens_nothing(
    server: Server, said: list[bytes], code: Refusal
) -> None:
    def opens() -> AbstractContextManager[tuple[RatingSource, Gate]]:
        raise AssertionError("the device was opened")

    with node(server, [said, TAKEN], opens) as device:
        device.turn()

    assert answered(server) == refusal(code)
    assert device.tally.codes == {code}


CHUNK = WorkPart(chunk=b"x").SerializeToString()
CROOKED: dict[str, Sequence[bytes] | grpc.StatusCode] = {
    "nothing at all": [],
    "a chunk first": [CHUNK],
    "a frame that is longer than the body": work(frame_bytes=6),
    "a name that is a path": work(work="a/b"),
    "a name without end": work(work="a" * 5000),
    "a chunk too many": [*work(), CHUNK],
    "a second head": [*work(), head()],
    "a chunk where there is nothing": [*nothing(), CHUNK],
    "a chunk without bytes": [head(), WorkPart(chunk=b"").SerializeToString()],
    "its bytes one by one": [head(), *[CHUNK] * 5],
    "no message": [b"\xff" * 7],
    "cut short": [head(), CHUNK],
    "a message larger than any": [head(), WorkPart(chunk=b"x" * (1 << 20)).SerializeToString()],
    "an error": grpc.StatusCode.INTERNAL,
}


@pytest.mark.parametrize("said", CROOKED.values(), ids=CROOKED)
def test_what_no_server_of_a_fleet_says_is_waited_out(
    server: Server, said: Sequence[bytes] | grpc.StatusCode
) -> None:
    with node(server, [said]) as device:
        assert device.turn() > 0.0

        assert device.trouble is not None
        assert (device.tally.asked, device.tally.answered) == (0, 0)


def test_an_answer_that_was_not_taken_is_sent_again_as_it_was(server: Server) -> None:
    with node(server, [work(), grpc.StatusCode.RESOURCE_EXHAUSTED, TAKEN]) as device:
        device.turn()
        device.turn()

    assert answered(server, 1) == answered(server, 2) != b""
    assert server.heard[1][1][wire.TIME] < server.heard[2][1][wire.TIME]
    assert device.tally.answered == 1


def test_an_answer_that_comes_too_late_is_dropped(server: Server) -> None:
    with node(server, [work(), grpc.StatusCode.FAILED_PRECONDITION, nothing()]) as device:
        device.turn()
        device.turn()

    assert device.tally.undelivered == 1
    assert server.heard[2][0] == Method.WORK.path


def test_each_call_is_later_than_the_one_before_though_the_clock_goes_back(server: Server) -> None:
    times = iter([100.0, 50.0, 60.0])
    connection = ServerConnection(
        address=f"127.0.0.1:{server.port}",
        authority=(server.folder / "authority.pem").read_text(),
        key=DeviceKey.load(server.folder / "device.key"),
        largest=LARGEST,
        clock=lambda: next(times),
    )
    server.says.extend([nothing()] * 3)
    for _ in range(3):
        connection.receive()
    connection.close()

    told = [int(metadata[wire.TIME]) for _, metadata, _ in server.heard]
    assert told == sorted(set(told))


def test_a_server_without_a_certificate_of_the_authority_hears_nothing(
    server: Server, tmp_path: Path
) -> None:
    make_authority(tmp_path / "authority.pem", tmp_path / "authority.key", name="another")
    DeviceKey().write(tmp_path)
    server.says.append(nothing())
    other = Server(tmp_path, port=server.port)

    with node(other, []) as device:
        assert device.turn() > 0.0

        assert device.trouble is Trouble.UNREACHABLE
    assert server.heard == []


def test_a_certificate_whose_time_is_over_is_told_in_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(UTC) - timedelta(days=3000)

    vouched_pair(tmp_path)
    DeviceKey().write(tmp_path)
    for name in ("server.pem", "server.key"):
        (tmp_path / name).unlink()
    monkeypatch.setattr(tls, "datetime", Earlier)
    monkeypatch.setattr(tls, "require_current", lambda *_, **__: None)
    tls.make_server_certificate(
        tmp_path / "server.pem",
        tmp_path / "server.key",
        authority=tmp_path / "authority.pem",
        authority_key=tmp_path / "authority.key",
        names=(),
    )
    with serving(tmp_path) as old, node(old, [nothing()]) as device:
        device.turn()

        assert device.trouble is Trouble.EXPIRED
        assert old.heard == []


def test_a_certificate_that_is_for_another_name_is_not_trusted(files: Path) -> None:
    with serving(files, "127.0.0.2") as other, node(other, [nothing()]) as device:
        device.turn()

        assert device.trouble is Trouble.UNREACHABLE
        assert other.heard == []


def test_a_server_that_is_away_is_waited_for_ever_longer(files: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    with node(Server(files, port=port), []) as device:
        pauses = [device.turn() for _ in range(4)]

        assert device.trouble is Trouble.UNREACHABLE
        assert pauses[0] < 0.5 < pauses[-1]


def test_what_is_no_grpc_is_a_trouble(files: Path) -> None:
    def greet(listening: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files / "server.pem", files / "server.key")
        context.set_alpn_protocols(["h2"])
        raw, _ = listening.accept()
        with raw, context.wrap_socket(raw, server_side=True) as sock:
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"\0" * 64)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:
        threads.submit(greet, listening)
        with node(Server(files, port=int(listening.getsockname()[1])), []) as device:
            assert device.turn() > 0.0

            assert device.trouble is Trouble.UNREACHABLE


def test_a_stop_that_comes_while_an_event_s_lock_is_not_held_is_no_error(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for an event releases its lock; an interrupt before it is taken again must not release it twice."""
    stop, turns = threading.Event(), list[int]()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def turn() -> float:
        turns.append(1)
        if len(turns) > 1:
            stop.set()
        return 0.01

    with node(server, []) as device:
        monkeypatch.setattr(stop._cond, "_acquire_restore", interrupted)
        monkeypatch.setattr(device, "turn", turn)
        device.run(stop)

    assert len(turns) == 2


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, Trouble.NOT_ADMITTED),
        (grpc.StatusCode.ABORTED, Trouble.TAKEN),
        (grpc.StatusCode.FAILED_PRECONDITION, Trouble.ROUND_OVER),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Trouble.UNREACHABLE),
        (grpc.StatusCode.UNAVAILABLE, Trouble.UNREACHABLE),
        (grpc.StatusCode.DATA_LOSS, Trouble.REFUSED),
    ],
)
def test_a_status_is_a_trouble_that_is_told_in_a_word(
    server: Server, status: grpc.StatusCode, trouble: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    with node(server, [status]) as device:
        device.turn()

        assert device.trouble is trouble
    assert "a text of the server" not in caplog.text


def test_a_server_that_is_away_is_asked_less_and_less_and_each_trouble_is_said_once(
    files: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    came: list[Trouble | None] = [*[Trouble.UNREACHABLE] * 8, Trouble.TAKEN, None, Trouble.UNREACHABLE]

    def work() -> None:
        if (trouble := came.pop(0)) is not None:
            raise CallError(trouble)

    with node(Server(files, port=9), []) as device, caplog.at_level(logging.WARNING, logger="fedboard"):
        monkeypatch.setattr(device, "_work", work)
        *waits, _, _, again = [device.turn() for _ in range(len(came))]

    for n, wait in enumerate(waits):
        assert 0.8 <= wait / min(0.25 * 2**n, 10.0) <= 1.2
    assert 0.8 <= again / 0.25 <= 1.2
    said = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert said == ["unreachable", "taken", "unreachable"]


def test_a_slow_server_is_given_time_but_not_for_ever() -> None:
    assert pause_after(1.0, took=0.001) == 1.0
    assert pause_after(1.0, took=1.0) == 4.0
    assert pause_after(1.0, took=1000.0) == 10.0
    assert pause_after(60.0, took=1000.0) == 60.0


def test_what_is_done_in_between_is_done_once_a_minute(files: Path) -> None:
    done = list[int]()
    device = Node(Server(files, port=9).settings(), broken, idle=lambda: done.append(1))

    device._tidy()
    device._tidy()

    assert done == [1]
