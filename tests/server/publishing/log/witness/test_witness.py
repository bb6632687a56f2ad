"""The rules of a witness, status by status as c2sp.org/tlog-witness has them; its memory; its port."""

import http.client
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common import files
from fedboard.common.boards.log.checkpoints import Checkpoint, cosigned_at
from fedboard.common.boards.log.merkle import EMPTY_ROOT
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind, Note, signatures_of
from fedboard.common.boards.log.requests import MAX_REQUEST_BYTES, AddCheckpoint
from fedboard.common.errors import InputError, PrivacyError
from fedboard.server.publishing.log.witness import http as reading
from fedboard.server.publishing.log.witness import witness as rules
from fedboard.server.publishing.log.witness.service import RunningWitness, WitnessSettings
from fedboard.server.publishing.log.witness.witness import Witness
from tests.server.publishing.log.witness.logs import ORIGIN, Log

KEY = NoteKey.generate("w.example/1", Kind.COSIGNATURE)
LOG = Log(words=[str(number) for number in range(5)])
FORK = Log(LOG.key, ["0", "1", "another", "3", "4", "5"])


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(KEY, [LOG.key.public], tmp_path / "memory")


def status(witness: Witness, body: bytes) -> HTTPStatus:
    return witness.add_checkpoint(body).status


def test_a_log_that_grows_is_cosigned_each_time(witness: Witness) -> None:
    for old, size in ((0, 2), (2, 5), (5, 5)):
        reply = witness.add_checkpoint(LOG.request(old, size))
        note = LOG.note(size).with_signatures(signatures_of(reply.content.decode()))
        assert reply.status == HTTPStatus.OK
        assert cosigned_at(note, KEY.public) is not None
    assert witness.sizes == {ORIGIN: 5}


def test_a_log_that_forks_is_not_cosigned_however_it_asks(witness: Witness) -> None:
    """The heart of it: one signed story is enough."""
    assert status(witness, LOG.request(0, 3)) == HTTPStatus.OK

    for request in (
        FORK.request(3, 3),  # another root of the same size
        FORK.request(3, 6),  # a proof within the fork
        LOG.request(3, 5, root=FORK.note(5).text.encode()[:32]),
        AddCheckpoint(3, (), FORK.note(6)).to_bytes(),
        AddCheckpoint(3, (bytes(32),) * 63, FORK.note(6)).to_bytes(),
    ):
        assert status(witness, request) == HTTPStatus.UNPROCESSABLE_ENTITY
    for old in (0, 2, 4):  # as if it had seen nothing, less or more
        reply = witness.add_checkpoint(FORK.request(old, 6))
        assert (reply.status, reply.content, reply.kind) == (HTTPStatus.CONFLICT, b"3\n", "text/x.tlog.size")
    assert witness.sizes == {ORIGIN: 3}
    assert status(witness, LOG.request(3, 5)) == HTTPStatus.OK


def test_what_the_logs_own_key_did_not_sign_is_not_cosigned(witness: Witness) -> None:
    other = Log(words=["0"])
    stranger = Log(NoteKey.generate("boards.example/books", Kind.NOTE), ["0"])
    forged = LOG.note(2)
    flipped = Note(LOG.note(3).text, forged.signatures)  # the right name and id, another signature

    assert status(witness, other.request()) == HTTPStatus.FORBIDDEN
    assert status(witness, AddCheckpoint(0, (), flipped).to_bytes()) == HTTPStatus.FORBIDDEN
    assert status(witness, stranger.request()) == HTTPStatus.NOT_FOUND
    both = Note(LOG.note(2).text, (*LOG.note(2).signatures, other.key.sign(LOG.note(2).text)))
    assert (
        status(witness, AddCheckpoint(0, (), both).to_bytes()) == HTTPStatus.OK
    )  # unknown keys are left alone


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 0\n",
        LOG.request().replace(b"old 0", b"old 00"),
        LOG.request().replace(b"old 0", b"old"),
        LOG.request().replace(b"old 0", b"old -1"),
        LOG.request().replace(b"old 0\n", b"old 0\nAAAA\n"),
        LOG.request().replace(b"old 0\n", b"old 0\n" + b"A" * 43 + b"=\n" * 64),
        LOG.request().replace(b"\n5\n", b"\n05\n"),
        LOG.request(2)[:-20],
        LOG.request().replace(b"old 0", b"old 9"),  # older than itself
        b"\xff" + LOG.request(),
        b"x" * (MAX_REQUEST_BYTES + 1),
    ],
)
def test_what_is_no_request_is_a_bad_one(witness: Witness, body: bytes) -> None:
    assert status(witness, body) == HTTPStatus.BAD_REQUEST
    assert witness.sizes == {ORIGIN: 0}


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3)), min_size=1, max_size=4))
def test_no_request_that_was_tampered_with_moves_it_or_fails(changes: list[tuple[int, bytes]]) -> None:
    """Whatever is cut, put in or replaced: refused with a status, and what it remembers stays."""
    body = LOG.request(2, 5)
    for place, piece in changes:
        at = place % len(body)
        body = body[:at] + piece + body[at + 1 :]

    with TemporaryDirectory() as folder:
        witness = Witness(KEY, [LOG.key.public], Path(folder))
        witness.add_checkpoint(LOG.request(0, 2))
        answered = status(witness, body)

        intact = AddCheckpoint.from_bytes(body) if answered == HTTPStatus.OK else None
        assert witness.sizes == {ORIGIN: 2 if intact is None else 5}
        if intact is not None:  # a piece that was put back, or a line of a key that is not known
            assert intact.note.text == LOG.note(5).text


def test_a_log_without_leaves_has_one_root_and_needs_no_proof(witness: Witness) -> None:
    empty = Log(LOG.key)
    assert status(witness, empty.request(root=bytes(32))) == HTTPStatus.UNPROCESSABLE_ENTITY
    proven = AddCheckpoint(0, (bytes(32),), LOG.note()).to_bytes()
    assert status(witness, proven) == HTTPStatus.UNPROCESSABLE_ENTITY
    assert status(witness, empty.request(root=EMPTY_ROOT)) == HTTPStatus.OK
    assert status(witness, LOG.request(0, 5)) == HTTPStatus.OK


def test_it_remembers_when_it_is_started_again_and_shows_what_it_saw(
    tmp_path: Path, witness: Witness
) -> None:
    name = sha256(ORIGIN.encode()).hexdigest()
    assert witness.checkpoint(name).status == HTTPStatus.NOT_FOUND
    witness.add_checkpoint(LOG.request(0, 3))

    again = Witness(KEY, [LOG.key.public], tmp_path / "memory")

    assert again.sizes == {ORIGIN: 3}
    assert status(again, FORK.request(0, 6)) == HTTPStatus.CONFLICT
    shown = Note.from_bytes(again.checkpoint(name).content)
    assert Checkpoint.parse(shown.text).size == 3
    assert shown.signed_by(LOG.key.public)
    assert cosigned_at(shown, KEY.public) is not None
    assert again.checkpoint("../witness.key").status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("after", ["write", "replace"])
def test_killed_before_or_after_it_remembers_it_never_cosigns_two_stories(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """Before: nothing was cosigned, and either story is the first. After: this one holds, sent or not."""

    def killed(path: Path, content: bytes) -> None:
        if after == "replace":
            files.write_atomically(path, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(rules, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        witness.add_checkpoint(LOG.request(0, 3))
    monkeypatch.undo()

    again = Witness(KEY, [LOG.key.public], tmp_path / "memory")
    expected = HTTPStatus.CONFLICT if after == "replace" else HTTPStatus.OK
    assert status(again, FORK.request(0, 6)) == expected


def test_a_memory_that_is_not_its_own_is_not_used(tmp_path: Path, witness: Witness) -> None:
    witness.add_checkpoint(LOG.request(0, 3))
    other = NoteKey.generate("w.example/2", Kind.COSIGNATURE)
    with pytest.raises(PrivacyError, match="restore"):
        Witness(other, [LOG.key.public], tmp_path / "memory")
    (kept,) = (tmp_path / "memory").glob("*.checkpoint")
    kept.write_bytes(kept.read_bytes()[:-9])
    with pytest.raises(PrivacyError, match="restore"):
        Witness(KEY, [LOG.key.public], tmp_path / "memory")
    with witness.alone(), pytest.raises(InputError, match="another witness"), witness.alone():
        pass


@pytest.fixture
def running(witness: Witness) -> Iterator[RunningWitness]:
    with RunningWitness(witness, WitnessSettings(connections=8, connections_per_address=4)) as found:
        yield found


def test_over_http_a_connection_is_kept_and_each_request_is_answered(running: RunningWitness) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)) as asking:
        for body, expected in ((LOG.request(0, 3), 200), (LOG.request(0, 5), 409), (FORK.request(3), 422)):
            asking.request("POST", "/add-checkpoint", body)
            answer = asking.getresponse()
            assert (answer.status, bool(answer.read())) == (expected, True)
        for method, path, expected in (
            ("GET", f"/{sha256(ORIGIN.encode()).hexdigest()}/checkpoint", 200),
            ("GET", "/add-checkpoint", 405),
            ("POST", "/", 404),
            ("GET", "/../witness.key", 404),
        ):
            asking.request(method, path)
            answer = asking.getresponse()
            assert (answer.status, bool(answer.read())) == (expected, True)
    assert running.answered[200] == 2


@pytest.mark.parametrize(
    ("sent", "first"),
    [
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", b"413"),
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"400"),
        (b"POST /add-checkpoint HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: +5\r\n\r\nhello", b"400"),
        (b"POST /add-checkpoint HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", b"431"),
        (b"POST /add-checkpoint HTTP/1.1\r\n" + b"X: y\r\n" * 100 + b"\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (b"\x16\x03\x01\xff\xff\r\n\r\n", b"400"),
    ],
)
def test_a_hostile_request_is_sent_away_and_the_connection_closed(
    running: RunningWitness, sent: bytes, first: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as hostile:
        hostile.sendall(sent)
        answer = b"".join(iter(lambda: hostile.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 " + first)


def test_who_sends_slowly_or_nothing_keeps_nobody_out(
    running: RunningWitness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_SECONDS", 0.2)
    held = [socket.create_connection(("127.0.0.1", running.port), timeout=20) for _ in range(4)]
    try:
        held[0].sendall(b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 50\r\n\r\nold")
        assert held[0].recv(100) == b""  # not whole in time: closed
        with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)) as asking:
            asking.request("POST", "/add-checkpoint", LOG.request())
            assert asking.getresponse().status == 200
    finally:
        for one in held:
            one.close()


@pytest.mark.slow
def test_as_a_process_it_is_made_started_killed_and_started_again(tmp_path: Path) -> None:
    """The commands of the guide, with a log's key from a file."""
    fedboard = [sys.executable, "-c", "from fedboard.cli.main import main; main()"]
    for words in (("keys", "witness", "--name", "w.example/1"), ("keys", "log", "--name", ORIGIN)):
        subprocess.run([*fedboard, *words], cwd=tmp_path, check=True, timeout=60)
    log = Log(NoteKey.read(tmp_path / "board-log/board-log.key", kind=Kind.NOTE), ["0", "1"])
    command = [
        *fedboard,
        "witness",
        "--key",
        "keys/witness.key",
        "--log",
        "board-log/board-log.pub",
        "--port",
        "0",
    ]
    for body, expected in ((log.request(), 200), (Log(log.key, ["0", "x"]).request(), 409)):
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            try:
                lines = iter(process.stdout.readline, "")
                port = next(int(line.split("port ")[1].split(";")[0]) for line in lines if "port " in line)
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as asking:
                    asking.request("POST", "/add-checkpoint", body)
                    assert asking.getresponse().status == expected
            finally:
                process.kill()
