"""A device without Flower: what it does with what a hostile, broken or absent server says."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fedboard.client.answering.rounds import RatingSource
from fedboard.client.answering.steps import SessionGate
from fedboard.client.node.connection import DirectConnection, DoorError
from fedboard.client.node.node import DirectNode
from fedboard.client.node.settings import NodeSettings
from fedboard.client.node.tally import Trouble
from fedboard.common.keys.node_keys import load_private_key, make_node_key
from fedboard.common.rounds.question import refusal
from fedboard.common.wire.refusals import Refusal
from fedboard.server.tls import make_authority
from tests.server.vouched import vouched_pair

NOTHING = b"HTTP/1.1 204 No Content\r\nfedboard-pause: 7\r\n\r\n"
TAKEN = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
HANG_UP = b""
"""What a server says that closes the connection."""
LARGEST = 1000


def work(
    body: bytes = b"frame",
    *,
    kind: str = "query.round",
    frame: int | None = None,
    name: str = "abc",
    more: str = "",
) -> bytes:
    """A response with something to answer."""
    n_frame = len(body) if frame is None else frame
    head = (
        f"HTTP/1.1 200 OK\r\nfedboard-work: {name}\r\nfedboard-kind: {kind}\r\nfedboard-frame-bytes: {n_frame}\r\n"
        f"content-length: {len(body)}\r\n{more}\r\n"
    )
    return head.encode() + body


@dataclass
class Server:
    """Says what it is told to, over TLS, to one request after the other."""

    folder: Path
    port: int = 0
    says: list[bytes] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)

    def settings(self, **changes: object) -> NodeSettings:
        given = {"poll_seconds": 1.0, "largest": LARGEST, **changes}
        return NodeSettings(
            server=f"127.0.0.1:{self.port}",
            root_certificate=self.folder / "authority.pem",
            private_key=self.folder / "node.key",
            **given,  # type: ignore[arg-type]
        )

    def serve(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        while True:
            try:
                raw, _ = listening.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(raw, server_side=True) as sock:
                    sock.settimeout(10)
                    while (heard := _request(sock)) and self.says:
                        self.heard.append(heard)
                        sock.sendall(self.says.pop(0))
                        if self.says[:1] == [HANG_UP]:
                            break
            except OSError:
                continue


def _request(sock: ssl.SSLSocket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found:
        if not (part := sock.recv(1 << 16)):
            return b""
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0].split(b":")[1]) - len(body)
    while missing > 0:
        part = sock.recv(missing)
        found, missing = found + part, missing - len(part)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    vouched_pair(folder)
    make_node_key(folder / "node.key", name="ann")
    return folder


@pytest.fixture
def server(files: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem", files / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Server(files, port=int(listening.getsockname()[1]))
        threading.Thread(target=found.serve, args=(listening, context), daemon=True).start()
        yield found
        listening.shutdown(socket.SHUT_RDWR)


@contextmanager
def broken() -> Iterator[tuple[RatingSource, SessionGate]]:
    raise RuntimeError("rated 5.0: 'A secret film'")
    yield


Opens = Callable[[], AbstractContextManager[tuple[RatingSource, SessionGate]]]


@contextmanager
def node(server: Server, says: Sequence[bytes], opens: Opens = broken) -> Iterator[DirectNode]:
    server.says.extend(says)
    made = DirectNode(server.settings(), opens)
    try:
        yield made
    finally:
        made._connection.close()


def test_a_device_without_work_comes_again_when_the_server_says(server: Server) -> None:
    with node(server, [NOTHING]) as device:
        assert 0.8 * 7 <= device.turn() <= 1.2 * max(7, 4 * device._took)  # later where the server is slow


def test_what_goes_wrong_on_the_device_is_told_as_a_code(server: Server) -> None:
    with node(server, [work(), TAKEN]) as device:
        device.turn()

    sent = server.heard[1]
    assert b"secret" not in sent
    assert sent.endswith(refusal(Refusal.INTERNAL))
    assert (device.tally.asked, device.tally.answered, device.tally.refused) == (1, 1, 1)


UNREAD = {
    "a message beyond the limit": (work(b"x" * (LARGEST + (1 << 16) + 1)), Refusal.TOO_LARGE),
    "a kind that is unknown": (work(kind="query.run-this"), Refusal.MALFORMED),
    "a greeting": (work(b"", kind="query.hello"), Refusal.MALFORMED),
    "a question with a board beside it": (work(b"frameboard", frame=5), Refusal.MALFORMED),
}


@pytest.mark.parametrize(("said", "code"), UNREAD.values(), ids=UNREAD)
def test_what_is_no_question_of_ours_is_answered_with_a_code_and_opens_nothing(
    server: Server, said: bytes, code: Refusal
) -> None:
    def opens() -> AbstractContextManager[tuple[RatingSource, SessionGate]]:
        raise AssertionError("the device was opened")

    with node(server, [said, TAKEN], opens) as device:
        device.turn()

    assert server.heard[1].endswith(refusal(code))
    assert device.tally.codes == {code}


CROOKED = {
    "a redirect": b"HTTP/1.1 307 Temporary Redirect\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    "compressed": work(more="content-encoding: gzip\r\n"),
    "without a length": work().replace(b"content-length", b"x-length"),
    "a length that is none": work().replace(b"content-length: 5", b"content-length: -5"),
    "a frame that is longer than the body": work(frame=6),
    "a frame of no number": work().replace(b"frame-bytes: 5", b"frame-bytes: 0x5"),
    "no name": work(name=""),
    "a name that is a header": work(name="a:b"),
    "a name without end": work(name="a" * 5000),
    "headers without end": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n",
    "no HTTP": b"\0" * 64 + b"\r\n\r\n",
    "an error": b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
    "cut short": work()[:-2] + b"",
}


@pytest.mark.parametrize("said", CROOKED.values(), ids=CROOKED)
def test_what_no_server_of_a_fleet_says_is_waited_out(server: Server, said: bytes) -> None:
    with node(server, [said, HANG_UP]) as device:
        assert device.turn() > 0.0

        assert device._waits.trouble is not None
        assert (device.tally.asked, device.tally.answered) == (0, 0)


def test_an_answer_that_was_not_taken_is_sent_again_as_it_was(server: Server) -> None:
    busy = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
    with node(server, [work(), busy, TAKEN]) as device:
        device.turn()
        device.turn()

    first, again = server.heard[1:3]
    assert first.partition(b"\r\n\r\n")[2] == again.partition(b"\r\n\r\n")[2] != b""
    assert device.tally.answered == 1


def test_an_answer_that_comes_too_late_is_dropped(server: Server) -> None:
    over = b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n"
    with node(server, [work(), over, NOTHING]) as device:
        device.turn()
        device.turn()

    assert device.tally.undelivered == 1
    assert server.heard[2].startswith(b"POST /v1/devices/work")


def test_each_request_is_later_than_the_one_before_though_the_clock_goes_back(server: Server) -> None:
    times = iter([100.0, 100.0, 50.0, 50.0, 60.0, 60.0])
    connection = DirectConnection(
        address=f"127.0.0.1:{server.port}",
        root_certificate=(server.folder / "authority.pem").read_text(),
        private_key=load_private_key(server.folder / "node.key"),
        largest=LARGEST,
        poll_seconds=1.0,
        clock=lambda: next(times),
    )
    server.says.extend([NOTHING] * 3)
    for _ in range(3):
        connection.receive()
    connection.close()

    told = [int(heard.split(b"fedboard-time: ")[1].split(b"\r\n")[0]) for heard in server.heard]
    assert told == sorted(set(told))


def test_a_server_without_a_certificate_of_the_authority_hears_nothing(
    server: Server, tmp_path: Path
) -> None:
    make_authority(tmp_path / "authority.pem", tmp_path / "authority.key", name="another")
    (tmp_path / "node.key").write_bytes((server.folder / "node.key").read_bytes())
    (tmp_path / "node.key").chmod(0o600)
    server.says.append(NOTHING)
    other = Server(tmp_path, port=server.port)

    device = DirectNode(other.settings(), broken)

    assert device.turn() > 0.0
    assert device._waits.trouble is Trouble.UNREACHABLE
    assert server.heard == []


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


def test_a_status_is_a_trouble_that_is_told_in_a_word(server: Server) -> None:
    for status, trouble in ((401, Trouble.NOT_ADMITTED), (409, Trouble.TAKEN), (418, Trouble.REFUSED)):
        with node(server, [f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode()]) as device:
            device.turn()
            assert device._waits.trouble is trouble


def test_a_connection_says_the_status(server: Server) -> None:
    server.says.append(b"HTTP/1.1 401 X\r\ncontent-length: 0\r\n\r\n")
    with node(server, [], lambda: nullcontext()) as device, pytest.raises(DoorError, match="status 401"):  # type: ignore[arg-type]
        device._connection.receive()
