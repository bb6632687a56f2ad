"""The service of devices over TLS: who is heard, what is taken, and what strangers and hostile members get."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedboard.client.participation.connection import CallError, Trouble
from fedboard.common.messages import devices as wire
from fedboard.common.messages.devices import CHUNK_BYTES, Method
from fedboard.common.messages.devices_pb2 import AnswerChunk, WorkRequest
from tests.commands import until
from tests.server.fleet.open_devices import LARGEST, OpenDevices, open_devices, pairs, stalling

MEMBERS = ("ann", "bob", "cid", "dan", "gone")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDevices]:
    """One server for most of the file."""
    with open_devices(tmp_path_factory.mktemp("devices"), members=MEMBERS) as found:
        yield found


@pytest.fixture
def server(opened: OpenDevices) -> Iterator[OpenDevices]:
    """Nothing is asked before or after."""
    yield opened
    opened.mailbox.end()


def trouble(act: Callable[[], object]) -> Trouble | None:
    """Of a device whose call fails."""
    try:
        act()
    except CallError as error:
        return error.trouble
    return None


def test_a_device_is_asked_and_its_answer_comes_to_the_round_loop(server: OpenDevices) -> None:
    server.ask("ann", frame=b"f" * 300_000, beside=b"b" * 300_000)
    ann, reply = server.device("ann"), bytes(range(256)) * 1000

    received = ann.receive()

    assert received is not None
    assert (received.kind, received.frame, received.board) == ("query.round", b"f" * 300_000, b"b" * 300_000)
    ann.send(received.work, reply)
    assert server.answers() == [reply]
    assert server.answers() == []
    assert ann.receive() is None
    assert server.mailbox.held == 0


def test_who_has_nothing_to_do_is_told_when_to_come_again_and_counts_as_there(server: OpenDevices) -> None:
    ann = server.device("ann")

    assert ann.receive() is None

    assert ann.pause == server.least_pause
    assert server.id("ann") in server.mailbox.seen.here()
    assert server.id("dan") not in server.mailbox.seen.here()
    (seen,) = [one for key, one in server.mailbox.seen.devices() if key == server.id("ann")]
    assert seen.version


def test_the_more_devices_there_are_the_later_they_come_again(tmp_path: Path) -> None:
    with open_devices(tmp_path, members=["ann"]) as server:
        ann = server.device("ann")
        ann.receive()
        for number in range(199):
            server.mailbox.seen.asks(f"{number:064x}", version="", pause=1.0)

        ann.receive()

        assert ann.pause == pytest.approx(2.0, abs=0.02)


FORGED: dict[str, Callable[[OpenDevices], Any]] = {
    "nothing signed": lambda server: {},
    "a key that nobody admits": lambda server: server.signed("eve"),
    "the public key alone": lambda server: server.signed("ann", signed_by="eve"),
    "an hour ago": lambda server: server.signed("ann", micros=int((time.time() - 3600) * 1e6)),
    "another method than was signed": lambda server: server.signed("ann", Method.ANSWER),
    "a field twice": lambda server: (*pairs(server.signed("ann")), (wire.WORK, "-")),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_what_no_member_has_signed_just_now_is_refused(
    server: OpenDevices, forge: Callable[[OpenDevices], Any]
) -> None:
    server.ask("ann")

    assert server.work(forge(server)) == "UNAUTHENTICATED"


@pytest.mark.parametrize("timeout", [5.0, None])
def test_a_stranger_learns_nothing_whatever_is_asked(server: OpenDevices, timeout: float | None) -> None:
    """Not by a status, a text or the time that it waits: the call ends before a message of it is read."""
    name = server.ask("ann")["ann"]
    messages, go_on = stalling()

    said = {
        server.work(server.signed("eve"), request=b"\xff" * 99, timeout=timeout),
        server.answer(server.signed("eve", Method.ANSWER, b"x", work=name), b"x", timeout=timeout),
        server.answer(server.signed("eve", Method.ANSWER, b"x", work=name), messages, timeout=timeout),
        server.answer({}, b"x" * LARGEST * 2, timeout=timeout),
    }
    go_on.set()

    assert said == {"UNAUTHENTICATED"}


def test_a_call_that_was_recorded_is_none_any_more(server: OpenDevices) -> None:
    name = server.ask("cid")["cid"]
    answer = server.signed("cid", Method.ANSWER, b"once", work=name)
    poll = server.signed("cid", micros=int(time.time() * 1e6) + 1)

    assert (server.answer(answer, b"once"), server.work(poll)) == ("OK", "OK")

    assert (server.answer(answer, b"once"), server.work(poll)) == ("ABORTED", "ABORTED")
    assert server.answers() == [b"once"]


def test_an_answer_that_is_not_what_was_signed_is_not_taken(server: OpenDevices) -> None:
    name = server.ask("ann")["ann"]
    for sent in (b"forged", b"sign", b"", b"signed "):
        said = server.answer(server.signed("ann", Method.ANSWER, b"signed", work=name), sent)

        assert said == "INVALID_ARGUMENT"
    assert server.answers() == []
    assert server.mailbox.held == 0


def test_a_request_for_work_that_is_not_what_was_signed_is_refused(server: OpenDevices) -> None:
    other = WorkRequest(version="0").SerializeToString()

    assert server.work(server.signed("ann"), request=other) == "INVALID_ARGUMENT"
    assert server.work(server.signed("ann", body=b"\xff"), request=b"\xff") == "INVALID_ARGUMENT"


@pytest.mark.parametrize("method", [Method.WORK, Method.ANSWER])
@pytest.mark.parametrize("kind", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_refused(server: OpenDevices, kind: grpc.Compression, method: Method) -> None:
    name, body = server.ask("ann")["ann"], b"x" * 10_000
    if method is Method.WORK:
        said = server.work(server.signed("ann"), compression=kind)
    else:
        said = server.answer(server.signed("ann", method, body, work=name), body, compression=kind)

    assert said == "UNIMPLEMENTED"
    assert server.answers() == []


def test_an_answer_that_is_too_large_is_not_kept(server: OpenDevices) -> None:
    name = server.ask("ann")["ann"]
    large = b"x" * (LARGEST + 1)

    assert server.answer(server.signed("ann", Method.ANSWER, large, work=name), large) == "OUT_OF_RANGE"

    assert server.answers() == []
    assert server.mailbox.held == 0


CROOKED: dict[str, list[bytes]] = {
    "a message that is larger than a chunk": [b"x" * (CHUNK_BYTES + 1)],
    "a chunk behind a short one": [b"x", b"x"],
    "a chunk without bytes": [b""],
    "chunks without bytes behind one": [b"x" * CHUNK_BYTES, b""],
}


@pytest.mark.parametrize("chunks", CROOKED.values(), ids=CROOKED)
def test_chunks_are_full_but_the_last(server: OpenDevices, chunks: list[bytes]) -> None:
    name = server.ask("ann")["ann"]
    metadata = server.signed("ann", Method.ANSWER, b"".join(chunks), work=name)

    said = server.answer(metadata, (AnswerChunk(content=one).SerializeToString() for one in chunks))

    assert said == "INVALID_ARGUMENT"
    assert server.answers() == []


@pytest.mark.parametrize("message", [b"\xff" * 5, b"x" * (1 << 20)])
def test_messages_that_are_none_or_larger_than_any_are_refused(server: OpenDevices, message: bytes) -> None:
    name = server.ask("ann")["ann"]
    said = server.answer(server.signed("ann", Method.ANSWER, message, work=name), iter([message]))

    assert said in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")
    assert server.answers() == []


@pytest.mark.parametrize("timeout", [None, 4_000_000.0])
def test_every_call_of_a_member_ends_at_a_time(server: OpenDevices, timeout: float | None) -> None:
    name = server.ask("ann")["ann"]
    metadata = server.signed("ann", Method.ANSWER, b"x", work=name)

    assert server.answer(metadata, b"x", timeout=timeout) == "INVALID_ARGUMENT"
    assert server.work(server.signed("ann"), timeout=timeout) == "INVALID_ARGUMENT"


def test_of_one_device_one_answer_is_taken(server: OpenDevices) -> None:
    server.ask("ann")
    ann = server.device("ann")
    received = ann.receive()
    assert received is not None
    ann.send(received.work, b"first")

    assert trouble(lambda: ann.send(received.work, b"second")) is Trouble.ROUND_OVER

    assert server.answers() == [b"first"]


def test_nobody_answers_in_the_place_of_another(server: OpenDevices) -> None:
    for_ann = server.ask("ann", "bob")["ann"]

    assert trouble(lambda: server.device("bob").send(for_ann, b"as ann")) is Trouble.ROUND_OVER

    assert server.answers() == []


def test_the_end_of_a_question_ends_what_it_asked(server: OpenDevices) -> None:
    server.ask("ann")
    ann = server.device("ann")
    received = ann.receive()
    assert received is not None
    server.mailbox.end()
    server.ask("ann", frame=b"and now?")

    assert trouble(lambda: ann.send(received.work, b"too late")) is Trouble.ROUND_OVER

    newer = ann.receive()
    assert newer is not None
    assert newer.frame == b"and now?"
    ann.send(newer.work, b"in time")
    assert server.answers() == [b"in time"]


def test_a_stalling_upload_holds_what_it_has_sent_and_keeps_nobody_waiting(server: OpenDevices) -> None:
    work = server.ask("ann", "bob")
    messages, go_on = stalling(b"x")
    said = list[str]()
    metadata = server.signed("ann", Method.ANSWER, b"x" * 100, work=work["ann"])
    upload = threading.Thread(target=lambda: said.append(server.answer(metadata, messages)))
    upload.start()
    until(lambda: server.mailbox.held == 1)

    server.device("bob").send(work["bob"], b"from bob")

    assert server.answers(wait=20.0) == [b"from bob"]
    server.mailbox.end()
    upload.join(20.0)
    go_on.set()
    assert said == ["DEADLINE_EXCEEDED"], "the end of the round ends it"
    assert server.mailbox.held == 0


def test_a_newer_answer_of_a_device_ends_the_older(server: OpenDevices) -> None:
    work = server.ask("ann")
    messages, go_on = stalling(b"x" * CHUNK_BYTES)
    said = list[str]()
    metadata = server.signed("ann", Method.ANSWER, b"x" * LARGEST, work=work["ann"])
    upload = threading.Thread(target=lambda: said.append(server.answer(metadata, messages)))
    upload.start()
    until(lambda: server.mailbox.held == CHUNK_BYTES)

    server.device("ann").send(work["ann"], b"whole")

    assert server.answers(wait=20.0) == [b"whole"]
    upload.join(20.0)
    go_on.set()
    assert said == ["DEADLINE_EXCEEDED"]
    assert server.mailbox.held == 0


def test_where_there_is_no_room_a_device_comes_again(tmp_path: Path) -> None:
    with open_devices(tmp_path, members=("ann", "bob"), most_held=100) as server:
        work = server.ask("ann", "bob")
        server.device("ann").send(work["ann"], b"x" * 50)
        bob = server.device("bob")

        assert trouble(lambda: bob.send(work["bob"], b"x" * 51)) is Trouble.REFUSED, "over half of all room"
        server.mailbox.most_held = 80
        assert trouble(lambda: bob.send(work["bob"], b"x" * 40)) is Trouble.UNREACHABLE
        assert server.answers() == [b"x" * 50]
        bob.send(work["bob"], b"x" * 40)
        assert server.answers() == [b"x" * 40]


def test_a_device_that_asks_answers_or_sends_too_often_has_to_wait(tmp_path: Path) -> None:
    with open_devices(tmp_path, members=("ann", "bob"), requests=6, answers=2, bytes_=100) as server:
        work, ann = server.ask("ann", "bob"), server.device("ann")
        calls = [lambda: ann.send("0" * 32, b"")] * 3 + [ann.receive] * 4

        assert [trouble(call) for call in calls] == [
            *[Trouble.ROUND_OVER] * 2,
            Trouble.UNREACHABLE,  # an answer too many, and a request that counts
            *[None] * 3,
            Trouble.UNREACHABLE,
        ]
        bob = server.device("bob")
        assert trouble(lambda: bob.send(work["bob"], b"x" * 101)) is Trouble.UNREACHABLE
        bob.send(work["bob"], b"x" * 100)
        assert server.mailbox.held == 100


def test_a_question_takes_of_the_bytes_that_a_device_may_fetch(tmp_path: Path) -> None:
    with open_devices(tmp_path, members=["ann"], bytes_=1000) as server:
        server.ask("ann", frame=b"x" * 400, beside=b"y" * 200)
        ann = server.device("ann")

        assert (trouble(ann.receive), trouble(ann.receive)) == (None, Trouble.UNREACHABLE)


def test_a_device_that_takes_nothing_of_its_question_has_one_call(server: OpenDevices) -> None:
    """A newer call for work ends the older, whose bytes nobody takes."""
    server.ask("ann", frame=b"x" * 8_000_000)
    call = server.channel().unary_stream(Method.WORK.path)
    before = server.service.counts["DEADLINE_EXCEEDED"]
    stuck = call(b"", metadata=pairs(server.signed("ann")), timeout=20.0)
    until(lambda: len(server.service._handing) == 1)

    assert trouble(server.device("ann").receive) is None

    until(lambda: server.service.counts["DEADLINE_EXCEEDED"] == before + 1)
    stuck.cancel()
    until(lambda: not server.service._handing)


def test_one_who_was_removed_is_refused_at_once(server: OpenDevices) -> None:
    server.ask("gone")
    gone = server.device("gone")
    received = gone.receive()
    assert received is not None
    server.remove("gone")

    assert trouble(lambda: gone.send(received.work, b"still here")) is Trouble.NOT_ADMITTED

    assert server.answers() == []
    assert server.id("gone") not in server.mailbox.seen.here()
    assert server.id("gone") not in server.service._last, "nothing is kept of it"


def test_a_clock_that_goes_back_does_not_shut_a_device_out(server: OpenDevices) -> None:
    times = iter([time.time(), time.time() - 100.0])
    dan = server.device("dan", clock=lambda: next(times))

    assert (dan.receive(), dan.receive()) == (None, None)


def test_where_it_is_not_known_who_is_a_member_nobody_is_let_in(
    server: OpenDevices, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    def broken(self: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("fedboard.server.fleet.register.Register.state", broken)

    assert server.work(server.signed("ann")) == "UNAVAILABLE"


def test_a_fault_of_the_server_is_a_status_and_no_text(
    server: OpenDevices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, key: str) -> None:
        raise RuntimeError("a secret path")

    monkeypatch.setattr("fedboard.server.fleet.mailbox.Mailbox.work_of", broken)
    call = server.channel().unary_stream(Method.WORK.path)

    with pytest.raises(grpc.RpcError) as failed:
        list(call(b"", metadata=pairs(server.signed("ann")), timeout=5.0))

    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.INTERNAL, "")


def test_more_calls_than_are_taken_at_a_time_are_sent_away(tmp_path: Path) -> None:
    with open_devices(tmp_path, members=("ann", "bob", "cid"), most_calls=2) as server:
        work = server.ask("ann", "bob", "cid")
        stalled = [stalling(b"x") for _ in "ab"]
        for name, (messages, _) in zip(("ann", "bob"), stalled, strict=True):
            metadata = server.signed(name, Method.ANSWER, b"xy", work=work[name])
            threading.Thread(target=server.answer, args=(metadata, messages), daemon=True).start()
        until(lambda: server.mailbox.held == 2)

        assert trouble(server.device("cid").receive) is Trouble.UNREACHABLE

        server.mailbox.end()
        for _, go_on in stalled:
            go_on.set()
        until(lambda: trouble(server.device("cid").receive) is None)
