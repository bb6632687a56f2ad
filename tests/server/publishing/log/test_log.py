"""The server's log: written before it is shown, whole after any crash, and cosigned by whoever answers."""

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from fedboard.common.board import Board
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.log.policy import most_of
from fedboard.common.boards.log.proofs import LogProof
from fedboard.common.errors import InputError, PrivacyError
from fedboard.server.publishing import mirror
from fedboard.server.publishing.log import link, log, logged
from fedboard.server.publishing.log.log import BoardLog
from fedboard.server.publishing.log.telling import NO_LOG, sentence, told, trouble
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.signing import SigningKey
from tests.common.boards.boards import (
    RUN,
    another,
    certified,
    chain,
    keys,
    write_boards,
    write_manifest,
)
from tests.server.publishing.log.network import Network, network


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def boards() -> list[Board]:
    return chain(3)


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Network]:
    with network(tmp_path / "net", honest=2) as found:
        yield found


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.read(keys(tmp_path / "keys")[0])


class Operator:
    """Boards, a mirror, and a log of them."""

    def __init__(self, folder: Path, net: Network, key: SigningKey, *, witnesses: Path | None = None) -> None:
        self.folder, self.net, self.key, self.witnesses = folder, net, key, witnesses
        self.mirror = Mirror(folder / "mirror")

    def publish(self, *boards: Board) -> list[int]:
        write_boards(self.folder / "boards", boards)
        with BoardLog.open(self.net.origin, witnesses=self.witnesses) as opened:
            return publish_into(self.mirror, self.folder / "boards", key=self.key, run=RUN, log=opened)

    def proof(self) -> LogProof:
        return LogProof.from_bytes((self.mirror.folder / LOG_PROOF).read_bytes())

    def shown(self) -> list[int]:
        return self.mirror.versions()


@pytest.fixture
def operator(tmp_path: Path, net: Network, key: SigningKey) -> Operator:
    return Operator(tmp_path, net, key, witnesses=net.policy_file(least=2))


def test_each_board_is_logged_with_its_ledger_cosigned_and_proven_beside_it(
    operator: Operator, boards: list[Board]
) -> None:
    assert operator.publish(*boards) == [2, 3, 4]

    proof = operator.proof()
    proof.require_sound()
    assert [entry.version for entry in proof.history.entries] == [2, 3, 4]
    assert [entry.board for entry in proof.history.entries] == [board.digest for board in boards]
    assert [entry.ledger_rows for entry in proof.history.entries] == [2, 3, 4]
    assert operator.net.policy(least=2).suffices(proof.note)
    assert sentence(told(operator.net.origin)) == (
        "log of boards: 3 entries, the last cosigned by 2 of 2 witnesses that are asked, enough for readers with "
        "the same policy"
    )
    assert trouble(told(operator.net.origin)) is None
    assert sentence(told(None)) == NO_LOG


STEPS = {
    "signed bytes kept": (log.BoardLog, "keep"),
    "entry written": (log, "_append"),
    "checkpoint and cosignatures": (log.BoardLog, "settle"),
    "proof shown": (log.BoardLog, "show"),
    "manifest shown": (mirror, "write_atomically"),
    "kept bytes forgotten": (log.BoardLog, "forget"),
}


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("done", [False, True])
def test_killed_before_or_after_any_step_it_goes_on_without_a_second_entry_or_a_fork(
    operator: Operator, boards: list[Board], monkeypatch: pytest.MonkeyPatch, step: str, done: bool
) -> None:
    operator.publish(boards[0])
    place, name = STEPS[step]
    work = getattr(place, name)

    def killed(*given: object, **named: object) -> None:
        if done:
            work(*given, **named)
        raise Killed

    monkeypatch.setattr(place, name, killed)
    with pytest.raises(Killed):
        operator.publish(*boards)
    monkeypatch.undo()
    operator.publish(*boards)

    proof = operator.proof()
    proof.require_sound()
    assert [entry.version for entry in proof.history.entries] == [2, 3, 4]
    assert operator.net.policy(least=2).suffices(proof.note)  # the witnesses saw no fork
    assert operator.shown() == [2, 3, 4]
    for version in operator.shown():
        content = operator.mirror.signed(version).content.encode()
        assert proof.history.index_of(hashlib.sha256(content).hexdigest()) == version - 2
    assert not list((operator.net.origin / "signed").iterdir())


@pytest.mark.parametrize("cut", [1, 30, 200, -1])
def test_an_entry_that_a_crash_cut_short_never_was(operator: Operator, boards: list[Board], cut: int) -> None:
    operator.publish(boards[0])
    entries = operator.net.origin / "entries"
    whole = entries.read_bytes()
    entries.write_bytes(whole + whole[:cut])

    operator.publish(*boards)

    assert [entry.version for entry in operator.proof().history.entries] == [2, 3, 4]
    with BoardLog.open(operator.net.origin) as opened:  # and what is on disk is that
        assert [entry.version for entry in opened.history.entries] == [2, 3, 4]


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-2], lambda text: text.replace("version 3", "version 2")]
)
def test_entries_that_are_not_those_of_the_last_checkpoint_are_never_gone_on_from(
    operator: Operator, boards: list[Board], damage: Callable[[str], str]
) -> None:
    operator.publish(*boards[:2])
    entries = operator.net.origin / "entries"
    entries.write_text(damage(entries.read_text()))

    with pytest.raises(PrivacyError, match="newest copy"):
        operator.publish(*boards)
    assert operator.shown() == [2, 3]


def test_a_log_put_back_to_an_older_copy_is_noticed_by_its_witnesses(
    operator: Operator, boards: list[Board]
) -> None:
    """Key, entries and checkpoint together, so that nothing here can tell."""
    operator.publish(boards[0])
    before = {path: path.read_bytes() for path in operator.net.origin.iterdir() if path.is_file()}
    operator.publish(*boards)
    for path, content in before.items():
        path.write_bytes(content)
    (operator.mirror.folder / "manifests/0003.json").unlink()
    (operator.mirror.folder / "manifests/0004.json").unlink()
    (operator.folder / "boards/board-0004.board").unlink()

    operator.publish(*boards[:2])

    assert "rolled back" in sentence(told(operator.net.origin))
    assert not operator.net.policy(least=2).suffices(operator.proof().note)
    with BoardLog.open(operator.net.origin, witnesses=operator.witnesses) as opened:
        opened.settle()
        assert "has seen more of this log" in str(opened.problem)


def test_a_second_board_for_a_version_is_neither_logged_nor_shown(
    operator: Operator, boards: list[Board]
) -> None:
    """Nor is one whose ledger was rolled back and written anew."""
    operator.publish(boards[0])
    for path in (operator.mirror.folder / "manifests").iterdir():
        path.unlink()
    with pytest.raises(PrivacyError, match="two boards for version 2"):
        operator.publish(another(boards[0]))
    assert operator.shown() == []
    operator.publish(boards[0])
    releases = list(boards[1].certificate["releases"])
    rewritten = [{**releases[0], "covers": "something else"}, *releases[1:]]
    rolled = boards[1].with_certificate({**boards[1].certificate, "releases": rewritten})
    with BoardLog.open(operator.net.origin) as opened, pytest.raises(PrivacyError, match="rolled back"):
        logged.log_board(opened, operator.mirror.signed(2), rolled, run=RUN)


def test_boards_that_were_shown_before_there_was_a_log_are_caught_up_with(
    operator: Operator, boards: list[Board]
) -> None:
    write_boards(operator.folder / "boards", boards[:2])
    publish_into(operator.mirror, operator.folder / "boards", key=operator.key, run=RUN)

    operator.publish(*boards)

    assert sorted(entry.version for entry in operator.proof().history.entries) == [2, 3, 4]


def test_a_manifest_that_is_signed_again_is_logged_again(operator: Operator, boards: list[Board]) -> None:
    """As when its date is renewed."""
    operator.publish(*boards)
    manifest = operator.key.public.open(operator.mirror.signed(4))
    renewed = msgspec.structs.replace(manifest, published="2030-01-01T00:00:00Z")
    write_manifest(operator.mirror, renewed, key=operator.key)

    operator.publish()

    assert [entry.version for entry in operator.proof().history.entries] == [2, 3, 4, 4]
    write_manifest(
        operator.mirror, msgspec.structs.replace(manifest, board_digest="f" * 64), key=operator.key
    )
    with pytest.raises(PrivacyError, match="not the manifest of the board"):
        operator.publish()


def test_a_witness_that_is_dead_or_never_answers_stops_nothing_and_is_asked_again(
    tmp_path: Path, net: Network, key: SigningKey, boards: list[Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board is shown with the cosignatures that are there; those that come later are added."""
    monkeypatch.setattr(link, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(link, "_LONGEST_PAUSE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        text = net.policy_file(least=2).read_text()
        away = text.replace(f":{net.running[1].port}", f":{port}")
        policy = net.folder / "away.policy"
        policy.write_text(away)
        with BoardLog.open(net.origin, witnesses=policy) as opened:
            opened._links[1]._seconds = opened._seconds = 0.2
            write_boards(tmp_path / "boards", boards[:1])
            publish_into(Mirror(tmp_path / "mirror"), tmp_path / "boards", key=key, run=RUN, log=opened)
    operator = Operator(tmp_path, net, key, witnesses=net.policy_file(least=2))
    assert operator.shown() == [2]
    assert net.policy(least=2).cosigners(operator.proof().note) == {"w0"}
    state = json.loads((net.origin / "witnesses.json").read_text())["witnesses"]
    assert state["w0"] == "cosigned"
    assert state["w1"] in ("does not answer", "not asked yet")

    operator.publish()

    assert net.policy(least=2).suffices(operator.proof().note)


def answering(line: str) -> bytes:
    content = f"{line}\n".encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content


@contextmanager
def hostile(reply: bytes) -> Iterator[int]:
    """A port that answers so, whatever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    one, _ = listening.accept()
                    with one:
                        one.recv(65536)
                        one.sendall(reply)

        threading.Thread(target=answer, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def with_hostile(net: Network, port: int) -> Path:
    """A policy whose second witness is asked there."""
    policy = net.folder / "hostile.policy"
    text = net.policy_file(least=2).read_text()
    policy.write_text(text.replace(f":{net.running[1].port}", f":{port}"))
    return policy


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        ("of another checkpoint", "something else"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "something else"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 70_000, "something else"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "does not know this log"),
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n0\n", "something else"),
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n9\n", "rolled back"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", "something else"),
        (b"garbage\r\n\r\n", "does not answer"),
        (b"", "does not answer"),
    ],
)
def test_whatever_a_hostile_witness_answers_the_board_is_shown(
    tmp_path: Path, net: Network, key: SigningKey, boards: list[Board], reply: bytes | str, state: str
) -> None:
    if isinstance(reply, str):
        reply = answering(net.keys[1].cosign("another\n1\n").line)
    with hostile(reply) as port:
        operator = Operator(tmp_path, net, key, witnesses=with_hostile(net, port))
        operator.publish(boards[0])

    assert operator.shown() == [2]
    assert net.policy(least=2).cosigners(operator.proof().note) == {"w0"}
    assert state in str(trouble(told(net.origin)))
    assert "TOO FEW for readers" in sentence(told(net.origin))


def test_a_witness_that_lies_is_asked_no_more_once_its_address_is_taken_out_of_the_policy(
    tmp_path: Path, net: Network, boards: list[Board], key: SigningKey
) -> None:
    """While the server runs; a policy that cannot be used changes nothing, and is said."""
    write_boards(tmp_path / "boards", boards[:1])
    with hostile(b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n9\n") as port:
        policy = with_hostile(net, port)
        with BoardLog.open(net.origin, witnesses=policy) as opened:
            publish_into(Mirror(tmp_path / "mirror"), tmp_path / "boards", key=key, run=RUN, log=opened)
            assert (
                opened.problem == "the witness w1 has seen more of this log than is here: it was rolled back"
            )
            policy.write_text("quorum half-written")
            opened.settle()
            assert "the witness w1" in str(opened.problem)
            assert f"{policy}: line 1" in str(opened.problem)

            policy.write_text(net.policy(least=2, only=[0]).text)
            opened.settle()

            assert opened.problem is None
    found = told(net.origin)
    assert found is not None
    assert (found["witnesses"], found["suffices"]) == ({"w0": "cosigned"}, False)


def test_a_policy_that_was_changed_while_the_server_runs_is_told_once(
    tmp_path: Path, net: Network, caplog: pytest.LogCaptureFixture
) -> None:
    policy = tmp_path / "witnesses.policy"
    before = net.policy(least=2)
    policy.write_text(before.text)
    fewer = most_of(before.log, before.witnesses[:1], least=1)
    with BoardLog.open(net.origin, witnesses=policy) as opened:
        for text in (f"# the same\n{before.text}", fewer.text):
            policy.write_text(text)
            opened.settle()
            opened.settle()

    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == f"{policy} was changed and counts from now on: {fewer.sentence}; before: {before.sentence}"


def test_a_log_is_for_one_process_and_for_the_policy_of_its_key(tmp_path: Path, net: Network) -> None:
    with (
        network(tmp_path / "other", honest=1) as other,
        pytest.raises(InputError, match="policy of witnesses is for"),
        BoardLog.open(net.origin, witnesses=other.policy_file(least=1)),
    ):
        pass
    with (
        BoardLog.open(net.origin),
        pytest.raises(InputError, match="another process"),
        BoardLog.open(net.origin),
    ):
        pass
    with pytest.raises(InputError, match="keys log"), BoardLog.open(tmp_path):
        pass


def test_without_a_log_a_mirror_is_what_it_was(tmp_path: Path, key: SigningKey, boards: list[Board]) -> None:
    write_boards(tmp_path / "boards", boards)
    publish_into(Mirror(tmp_path / "mirror"), tmp_path / "boards", key=key, run=RUN)

    assert not (tmp_path / "mirror" / LOG_PROOF).exists()
    assert certified(boards[0]).digest == boards[0].digest
