"""Devices at the door without Flower: who is heard, what is taken, and what a stranger or a hostile member gets."""

import base64
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fedboard.common.wire import direct as wire
from tests.server.fleet.door.open_door import LARGEST, OpenDoor, open_door, status_of

pytestmark = pytest.mark.slow

MEMBERS = ("ann", "bob", "cid", "dan", "gone")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    """One process for the whole file."""
    with open_door(tmp_path_factory.mktemp("door"), members=MEMBERS) as found:
        yield found


@pytest.fixture(autouse=True)
def closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Devices leave after each test."""
    yield
    if "door" in request.fixturenames:
        request.getfixturevalue("door").close_devices()


def request(
    door: OpenDoor,
    name: str,
    path: str = wire.WORK_PATH,
    *,
    body: bytes = b"",
    work: str = "-",
    micros: int | None = None,
    signed_by: str | None = None,
    changes: dict[str, str | None] | None = None,
    more: str = "",
    sent: bytes | None = None,
) -> bytes:
    """A request as bytes: honest, but for what is changed in it after it was signed."""
    sender = wire.Sender(private_key=door.key(signed_by or name), public_key=door.pem.get(name, "").encode())
    at = int(time.time() * 1_000_000) if micros is None else micros
    headers: dict[str, str | None] = {**sender.headers(path, body, micros=at, work=work)}
    headers |= {"Host": "door", "Content-Length": str(len(body)), **(changes or {})}
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items() if value is not None)
    return f"POST {path} HTTP/1.1\r\n{lines}{more}\r\n".encode() + (body if sent is None else sent)


def test_a_device_is_asked_and_its_answer_comes_to_the_round_loop(door: OpenDoor) -> None:
    asking, ann = door.ask("ann", frame=b"f" * 300_000, beside=b"a board"), door.device("ann")

    received = ann.receive()

    assert received is not None
    assert (received.kind, received.frame, received.board) == ("query.round", b"f" * 300_000, b"a board")
    ann.send(received.work, b"my answer")
    assert [(one.key, one.content) for one in asking.answers()] == [(door.pem["ann"], b"my answer")]
    assert asking.answers() == []
    assert ann.receive() is None


def test_who_has_nothing_to_do_is_told_when_to_come_again_and_counts_as_there(door: OpenDoor) -> None:
    door.ask("bob")
    ann = door.device("ann")

    assert ann.receive() is None

    assert ann.pause > 0.0  # a device every two seconds
    assert door.pem["ann"] in door.line.present()
    assert door.pem["dan"] not in door.line.present()


FORGED: dict[str, Callable[[OpenDoor], bytes]] = {
    "nothing signed": lambda door: request(door, "ann", changes=dict.fromkeys(SIGNED)),
    "a key that nobody lists": lambda door: request(door, "eve"),
    "the public key alone": lambda door: request(door, "ann", signed_by="eve"),
    "an hour ago": lambda door: request(door, "ann", micros=int((time.time() - 3600) * 1e6)),
    "in an hour": lambda door: request(door, "ann", micros=int((time.time() + 3600) * 1e6)),
    "another time than was signed": lambda door: request(
        door, "ann", changes={wire.TIME: str(int(time.time() * 1e6) + 1)}
    ),
    "no number": lambda door: request(door, "ann", changes={wire.TIME: "1e15"}),
    "a number that is too long": lambda door: request(door, "ann", changes={wire.TIME: "9" * 4000}),
    "a signature that is none": lambda door: request(door, "ann", changes={wire.SIGNATURE: "AAAA"}),
    "no base64": lambda door: request(door, "ann", changes={wire.SIGNATURE: "\xe4"}),
    "another path than was signed": lambda door: request(door, "ann").replace(
        wire.WORK_PATH.encode(), wire.ANSWER_PATH.encode(), 1
    ),
    "another answer than was signed": lambda door: request(
        door, "ann", wire.ANSWER_PATH, work="a" * 32, changes={wire.WORK: "b" * 32}
    ),
    "another body than was signed": lambda door: request(
        door, "ann", wire.ANSWER_PATH, changes={wire.DIGEST: hashlib.sha256(b"x").hexdigest()}
    ),
    "signed for Flower": lambda door: request(door, "ann", changes=flower(door)),
}
SIGNED = (wire.KEY, wire.TIME, wire.SIGNATURE, wire.DIGEST, wire.WORK)


def flower(door: OpenDoor) -> dict[str, str | None]:
    """The signature of a time alone, as Flower's requests have it."""
    from cryptography.hazmat.primitives import hashes

    at = str(int(time.time() * 1e6))
    signature = door.key("ann").sign(at.encode(), ec.ECDSA(hashes.SHA256()))
    return {wire.TIME: at, wire.SIGNATURE: base64.b64encode(signature).decode()}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_what_no_member_has_signed_just_now_is_refused(
    door: OpenDoor, forge: Callable[[OpenDoor], bytes]
) -> None:
    assert door.said(forge(door)) == [401]


def test_a_request_that_was_recorded_is_none_any_more(door: OpenDoor) -> None:
    asking = door.ask("cid")
    cid = door.device("cid")
    received = cid.receive()
    assert received is not None
    recorded = request(door, "cid", wire.ANSWER_PATH, body=b"once", work=received.work)
    poll = request(door, "cid", micros=int(time.time() * 1e6) + 1)

    assert door.said(recorded) == [200]
    assert door.said(poll) == [204]

    assert (door.said(recorded), door.said(poll)) == ([409], [409])
    assert [one.content for one in asking.answers()] == [b"once"]


CROOKED: dict[str, Callable[[OpenDoor], bytes]] = {
    "a header twice": lambda door: request(door, "ann", more=f"{wire.WORK}: {'c' * 32}\r\n"),
    "a body in chunks": lambda door: request(
        door,
        "ann",
        changes={"Content-Length": None},
        more="Transfer-Encoding: chunked\r\n",
        sent=b"0\r\n\r\n",
    ),
    "no length": lambda door: request(door, "ann", changes={"Content-Length": None}),
}


@pytest.mark.parametrize("crooked", CROOKED.values(), ids=CROOKED)
def test_what_two_readers_could_take_differently_is_no_request(
    door: OpenDoor, crooked: Callable[[OpenDoor], bytes]
) -> None:
    assert door.said(crooked(door)) == [400]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /v1/devices/work HTTP/1.1", 404),
        ("POST /v1/devices/work?x=1 HTTP/1.1", 404),
        ("POST /v1/devices/work/ HTTP/1.1", 404),
        ("POST /v1/devices/other HTTP/1.1", 404),
    ],
)
def test_other_places_and_methods_are_not_found(door: OpenDoor, line: str, status: int) -> None:
    honest = request(door, "ann")

    assert door.said(line.encode() + honest[honest.index(b"\r\n") :]) == [status]


def test_a_poll_has_no_body(door: OpenDoor) -> None:
    assert door.said(request(door, "ann", body=b"x")) == [413]


def test_an_answer_that_is_too_large_is_refused_before_it_is_sent(door: OpenDoor) -> None:
    asking = door.ask("ann")
    received = door.device("ann").receive()
    assert received is not None
    large = b"x" * (LARGEST + 1)

    said = door.said(request(door, "ann", wire.ANSWER_PATH, body=large, work=received.work, sent=b""))

    assert said == [413]
    assert asking.answers() == []


def test_an_answer_that_is_not_what_was_signed_is_not_taken(door: OpenDoor) -> None:
    asking = door.ask("ann")
    received = door.device("ann").receive()
    assert received is not None

    said = door.said(
        request(door, "ann", wire.ANSWER_PATH, body=b"signed", work=received.work, sent=b"forged")
    )

    assert said == [400]
    assert asking.answers() == []


def test_of_one_device_one_answer_is_taken(door: OpenDoor) -> None:
    asking, ann = door.ask("ann"), door.device("ann")
    received = ann.receive()
    assert received is not None
    ann.send(received.work, b"first")

    assert status_of(lambda: ann.send(received.work, b"second")) == 410

    assert [one.content for one in asking.answers()] == [b"first"]


def test_nobody_answers_in_the_place_of_another(door: OpenDoor) -> None:
    asking = door.ask("ann", "bob")
    for_ann = door.device("ann").receive()
    assert for_ann is not None

    assert status_of(lambda: door.device("bob").send(for_ann.work, b"as ann")) == 410

    assert asking.answers() == []


def test_whoever_was_not_asked_has_nothing_to_answer(door: OpenDoor) -> None:
    door.ask("ann")

    assert status_of(lambda: door.device("bob").send("0" * 32, b"unasked")) == 410


def test_the_next_question_ends_the_one_before(door: OpenDoor) -> None:
    before, ann = door.ask("ann"), door.device("ann")
    received = ann.receive()
    assert received is not None
    after = door.ask("ann", frame=b"and now?")

    assert status_of(lambda: ann.send(received.work, b"too late")) == 410

    newer = ann.receive()
    assert newer is not None
    assert newer.frame == b"and now?"
    ann.send(newer.work, b"in time")
    assert [one.content for one in after.answers()] == [b"in time"]
    assert before.answers() == []


def test_a_question_that_is_over_is_not_handed_out_and_nothing_is_taken_to_it(door: OpenDoor) -> None:
    door.ask("ann", seconds=0.0)
    time.sleep(0.01)

    assert door.device("ann").receive() is None

    asking, ann = door.ask("ann"), door.device("ann")
    received = ann.receive()
    assert received is not None
    asking.end()
    assert status_of(lambda: ann.send(received.work, b"too late")) == 410


def test_whoever_is_asked_again_while_she_answers_may_still_hand_it_in(door: OpenDoor) -> None:
    asking, ann = door.ask("ann", "bob"), door.device("ann")
    received = ann.receive()
    assert received is not None
    door.ask_again(asking, "ann", "bob", frame=b"what? (signed anew)")

    ann.send(received.work, b"made before")
    door.ask_again(asking, "ann")

    assert ann.receive() is None, "her answer is on its way"
    assert [one.content for one in asking.answers()] == [b"made before"]
    door.ask_again(asking, "ann")  # the round loop could not use it
    assert ann.receive() is not None


def test_one_who_sends_nothing_of_what_she_announced_keeps_nobody_else_waiting(door: OpenDoor) -> None:
    asking = door.ask("ann", "bob")
    received = door.device("ann").receive()
    assert received is not None
    announced = request(door, "ann", wire.ANSWER_PATH, body=b"x" * 100, work=received.work, sent=b"x")

    with door.tls() as slow:
        slow.sendall(announced)
        bob = door.device("bob")
        for_bob = bob.receive()
        assert for_bob is not None
        bob.send(for_bob.work, b"from bob")

    assert [one.content for one in asking.answers()] == [b"from bob"]


def test_one_who_was_removed_is_refused_at_once(door: OpenDoor) -> None:
    asking, gone = door.ask("gone"), door.device("gone")
    received = gone.receive()
    assert received is not None
    door.remove("gone")

    assert status_of(lambda: gone.send(received.work, b"still here")) == 401
    assert asking.answers() == []
    assert door.pem["gone"] not in door.line.present()


def test_the_line_is_for_this_account_alone(door: OpenDoor) -> None:
    place = Path(door.state.line.read_text())

    assert place.parent.stat().st_mode & 0o777 == 0o700


def test_a_door_that_was_killed_loses_nothing_but_time(door: OpenDoor) -> None:
    """What was under way is asked again; what was recorded of the time before is no answer to it."""
    asking, ann = door.ask("ann", "bob"), door.device("ann")
    received = ann.receive()
    assert received is not None
    ann.send(received.work, b"lost with the door")
    recorded = request(door, "bob", wire.ANSWER_PATH, body=b"old", work=received.work)
    left = Path(door.state.line.read_text()).parent
    ann.close()
    door.kill()
    door.start()

    assert asking.answers() == []
    assert asking.lost()
    assert not left.exists()
    door.ask_again(asking, "ann", "bob")
    again = ann.receive()
    assert again is not None
    assert again.work != received.work
    ann.send(again.work, b"the same bytes")
    assert door.said(recorded) == [410]
    assert [one.content for one in asking.answers()] == [b"the same bytes"]
