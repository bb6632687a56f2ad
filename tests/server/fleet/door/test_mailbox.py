"""Work and answers between the door and the round loop: room, time, and senders that never end."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.wire import direct as wire
from fedboard.server.fleet.door import direct
from fedboard.server.fleet.door.allowance import Allowance
from fedboard.server.fleet.door.direct import DirectDoor, SenderLimits
from fedboard.server.fleet.door.mailbox import Mailbox, Message, NoRoomError
from fedboard.server.fleet.door.node_signature import AdmittedNodes
from fedboard.server.fleet.door.seen import Seen

ANN, BOB = b"ann", b"bob"
MESSAGE = Message("query.round", b"what?", b"")
PRIVATE = ec.generate_private_key(ec.SECP384R1())
PEM = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def asked(mailbox: Mailbox, *keys: bytes, asking: str = "one", after: int = 0) -> dict[bytes, str]:
    """Ask them; the names of their work."""
    mailbox.ask(asking, dict.fromkeys(keys, MESSAGE), after=after, largest=100, seconds=10.0)
    return {key: work.name for key in keys if (work := mailbox.work_of(key)) is not None}


async def fits(mailbox: Mailbox, n_bytes: int) -> bool:
    """Whether one more answer of so many bytes has room."""
    async with asyncio.timeout(60) as within:
        with suppress(NoRoomError), mailbox.arriving(b"somebody", within) as take:
            take(n_bytes)
            return True
    return False


def has_room(mailbox: Mailbox, n_bytes: int) -> bool:
    return asyncio.run(fits(mailbox, n_bytes))


def test_answers_that_the_round_loop_has_not_fetched_take_room_until_it_has() -> None:
    mailbox = Mailbox(most_held=10)
    names = asked(mailbox, ANN, BOB)

    assert mailbox.put(ANN, names[ANN], b"8 bytes!")

    assert not has_room(mailbox, 3), "held until it is fetched"
    (answer,) = mailbox.fetch("one", after=0, most_bytes=100)
    assert not has_room(mailbox, 3), "held until the round loop is known to have it"
    assert mailbox.fetch("one", after=answer.number, most_bytes=100) == []
    assert has_room(mailbox, 3)


def test_an_answer_that_got_lost_on_the_line_is_told_again() -> None:
    mailbox = Mailbox()
    names = asked(mailbox, ANN)
    mailbox.put(ANN, names[ANN], b"mine")

    first, again = (mailbox.fetch("one", after=0, most_bytes=100) for _ in range(2))

    assert first == again != []


def test_what_is_fetched_at_once_is_bounded_and_nothing_is_left_behind() -> None:
    mailbox = Mailbox()
    names = asked(mailbox, ANN, BOB)
    for key in (ANN, BOB):
        mailbox.put(key, names[key], b"x" * 60)

    (first,) = mailbox.fetch("one", after=0, most_bytes=100)
    (second,) = mailbox.fetch("one", after=first.number, most_bytes=1)

    assert (first.key, second.key) == (ANN, BOB)


def test_the_end_of_a_question_gives_its_room_back() -> None:
    mailbox = Mailbox(most_held=10)
    names = asked(mailbox, ANN)
    mailbox.put(ANN, names[ANN], b"x" * 10)

    asked(mailbox, ANN, asking="two")

    assert has_room(mailbox, 10)
    assert mailbox.fetch("one", after=0, most_bytes=100) == []


def test_work_ends_with_its_time() -> None:
    now = [0.0]
    mailbox = Mailbox(clock=lambda: now[0])
    names = asked(mailbox, ANN)
    now[0] = 10.1

    assert mailbox.work_of(ANN) is None
    assert not mailbox.put(ANN, names[ANN], b"late")


def door_of(mailbox: Mailbox, *, per_minute: int = 1_000, requests: int = 99) -> DirectDoor:
    limits = SenderLimits(
        bytes=Allowance(per_minute=per_minute),
        requests=Allowance(per_minute=requests),
        answers=Allowance(per_minute=99),
    )
    return DirectDoor(
        mailbox=mailbox,
        admitted=AdmittedNodes([PEM.decode()]),
        limits=limits,
        seen=Seen(),
        polls_per_second=1.0,
    )


def handed_in(
    door: DirectDoor, body: bytes, receive: Callable[[], Awaitable[dict[str, Any]]], *, micros: int = 0
) -> int:
    """Status of an answer whose body comes as ``receive`` says."""
    return asyncio.run(hand_in(door, body, receive, micros=micros))


async def hand_in(
    door: DirectDoor, body: bytes, receive: Callable[[], Awaitable[dict[str, Any]]], *, micros: int = 0
) -> int:
    work = door.mailbox.work_of(PEM)
    assert work is not None
    sender = wire.Sender(private_key=PRIVATE, public_key=PEM)
    at = int(door.clock() * 1e6) + micros
    signed = sender.headers(wire.ANSWER_PATH, body, micros=at, work=work.name)
    headers = [(name.encode(), value.encode()) for name, value in signed.items()]
    scope = {
        "method": "POST",
        "raw_path": wire.ANSWER_PATH.encode(),
        "query_string": b"",
        "headers": [*headers, (b"content-length", str(len(body)).encode())],
    }

    async def send(event: Any) -> None: ...

    return await door.serve(scope, receive, send)


async def never() -> dict[str, Any]:
    await asyncio.sleep(3600)
    raise AssertionError


async def whole() -> dict[str, Any]:
    return {"type": "http.request", "body": b"x" * 40, "more_body": False}


async def gone() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def more_than_was_said() -> dict[str, Any]:
    return {"type": "http.request", "body": b"x" * 1000, "more_body": True}


def test_a_sender_that_sends_nothing_is_given_up_and_holds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_SECONDS", 0.01)
    mailbox = Mailbox(most_held=80)
    asked(mailbox, PEM)
    door = door_of(mailbox)

    assert handed_in(door, b"x" * 40, never) == 408
    assert handed_in(door, b"x" * 40, gone, micros=10) == 400
    assert handed_in(door, b"x" * 40, more_than_was_said, micros=20) == 400

    assert has_room(mailbox, 80)
    assert mailbox.fetch("one", after=0, most_bytes=100) == []


def test_where_there_is_no_room_a_device_comes_again() -> None:
    mailbox = Mailbox(most_held=80)
    names = asked(mailbox, PEM, ANN)
    door = door_of(mailbox)
    mailbox.put(ANN, names[ANN], b"x" * 50)

    assert handed_in(door, b"x" * 40, whole) == 503
    mailbox.fetch("one", after=1, most_bytes=1)
    assert handed_in(door, b"x" * 40, whole, micros=10) == 200


async def stalled(door: DirectDoor) -> "asyncio.Task[int]":
    """An answer of 40 bytes, of which one has come."""
    waits = asyncio.Event()

    async def a_byte() -> dict[str, Any]:
        if waits.is_set():
            return await never()
        waits.set()
        return {"type": "http.request", "body": b"x", "more_body": True}

    task = asyncio.create_task(hand_in(door, b"x" * 40, a_byte))
    await waits.wait()
    return task


def test_an_answer_takes_room_as_it_arrives_and_a_device_has_one_on_its_way() -> None:
    mailbox = Mailbox(most_held=80)
    asked(mailbox, PEM)
    door = door_of(mailbox)

    async def play() -> tuple[int, int]:
        first = await stalled(door)
        assert [await fits(mailbox, 79), await fits(mailbox, 80)] == [True, False]
        second = await hand_in(door, b"x" * 40, whole, micros=10)
        return await first, second

    assert asyncio.run(play()) == (408, 200)
    assert [answer.content for answer in mailbox.fetch("one", after=0, most_bytes=100)] == [b"x" * 40]
    assert [has_room(mailbox, 40), has_room(mailbox, 41)] == [True, False]


def test_the_end_of_a_question_gives_up_what_is_on_its_way() -> None:
    mailbox = Mailbox(most_held=80)
    asked(mailbox, PEM)

    async def play() -> int:
        first = await stalled(door_of(mailbox))
        asked(mailbox, PEM, asking="two")
        return await first

    assert asyncio.run(play()) == 408
    assert has_room(mailbox, 80)


def test_an_answer_may_take_half_the_room() -> None:
    mailbox = Mailbox(most_held=78)
    asked(mailbox, PEM)

    assert handed_in(door_of(mailbox), b"x" * 40, whole) == 413


def test_one_device_sends_so_many_bytes_a_minute() -> None:
    mailbox = Mailbox()
    asked(mailbox, PEM)

    assert handed_in(door_of(mailbox, per_minute=39), b"x" * 40, never) == 503


def test_a_device_that_came_late_may_be_as_late_again_and_one_that_was_away_may_not() -> None:
    now = [1000.0]
    seen = Seen(clock=lambda: now[0])

    def here(after: float) -> bool:
        at, now[0] = now[0], now[0] + after
        found = ANN in seen.here_directly()
        now[0] = at
        return found

    def comes(after: float) -> None:
        now[0] += after
        seen.request(ANN, answers=False, version=b"", pause=100.0)

    comes(0)
    assert (here(229), here(231)) == (True, False)
    comes(350)
    assert (here(729), here(731)) == (True, False)
    comes(1_000_000)
    assert (here(829), here(831)) == (True, False)


def test_a_device_asks_so_often_a_minute() -> None:
    mailbox = Mailbox()
    asked(mailbox, PEM)
    door = door_of(mailbox, requests=2)

    assert [handed_in(door, b"x" * 40, gone, micros=at) for at in (0, 1, 2)] == [400, 400, 503]


@pytest.mark.parametrize("text", ["", "nan", "inf", "-inf", "1e999", "x", "-5", "\0"])
def test_no_header_of_seconds_is_more_than_an_hour_or_less_than_none(text: str) -> None:
    assert 0.0 <= wire.seconds_of(text) <= wire.LONGEST_PAUSE


def test_a_statement_is_read_in_one_way_only() -> None:
    """Whatever is between two parts could not have been part of one of them."""
    sender = wire.Sender(private_key=PRIVATE, public_key=PEM)
    headers = sender.headers(wire.WORK_PATH, b"", micros=7, work="a\nb")
    given = {name.encode(): value.encode() for name, value in headers.items()}
    keys = {PEM: PRIVATE.public_key()}

    assert wire.Request.read(wire.WORK_PATH, given, keys, now=0.0) is not None
    moved = given | {wire.WORK.encode(): b"a", wire.DIGEST.encode(): b"b\n" + given[wire.DIGEST.encode()]}
    read = wire.Request.read(wire.WORK_PATH, moved, keys, now=0.0)
    assert read is None or not read.has(b""), (
        "HTTP has no line's end in a header, and no body has such a digest"
    )
    assert given[wire.DIGEST.encode()] == hashlib.sha256(b"").hexdigest().encode()


NAMES = [
    *(name.encode() for name in (wire.KEY, wire.TIME, wire.SIGNATURE, wire.DIGEST, wire.WORK, wire.PAUSE))
]
CHANGES = st.dictionaries(
    st.sampled_from([*NAMES, b"content-length", wire.VERSION.encode()]),
    st.one_of(st.none(), st.binary(max_size=64), st.text("0123456789.eE+-nafi", max_size=30).map(str.encode)),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, path=st.sampled_from([wire.WORK_PATH, wire.ANSWER_PATH]))
def test_whatever_stands_in_a_header_is_a_verdict(changes: dict[bytes, bytes | None], path: str) -> None:
    door = door_of(Mailbox())
    signed = wire.Sender(private_key=PRIVATE, public_key=PEM).headers(
        path, b"", micros=int(door.clock() * 1e6)
    )
    headers: dict[bytes, bytes | None] = {name.encode(): value.encode() for name, value in signed.items()}
    headers |= {b"content-length": b"0"} | changes
    scope = {
        "method": "POST",
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name, value) for name, value in headers.items() if value is not None],
    }

    found = door._verdict(scope)

    assert isinstance(found, tuple) or found in (400, 401, 409, 413, 503)
    if changes.keys() & set(NAMES[:5]):
        assert found in (400, 401)
