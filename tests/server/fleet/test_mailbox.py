"""Work and answers between the event loop and the round loop's thread: room, time, and senders that never end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from fedboard.server.fleet.mailbox import Mailbox, Message, NoRoomError, Reply, Seen

ANN, BOB = "aa" * 32, "bb" * 32
MESSAGE = Message("query.round", b"what?")


def asked(mailbox: Mailbox, *keys: str) -> dict[str, str]:
    """Ask them; the names of their work."""
    mailbox.ask(dict.fromkeys(keys, MESSAGE), largest=100, seconds=10.0)
    return {key: work.name for key in keys if (work := mailbox.work_of(key)) is not None}


def has_room(mailbox: Mailbox, n_bytes: int) -> bool:
    """Whether one more answer of so many bytes has room."""
    with suppress(NoRoomError), mailbox.arriving("somebody", _nothing) as take:
        take(n_bytes)
        return True
    return False


def _nothing() -> None: ...


def test_an_answer_comes_to_whoever_asked_once() -> None:
    mailbox = Mailbox()
    names = asked(mailbox, ANN, BOB)

    assert mailbox.put(ANN, names[ANN], b"mine")
    assert not mailbox.put(ANN, names[ANN], b"another")

    assert mailbox.answers(wait=0.0) == [Reply(ANN, b"mine")]
    assert mailbox.answers(wait=0.0) == []
    assert (mailbox.work_of(ANN), mailbox.expects(BOB, names[BOB])) == (None, mailbox.work_of(BOB))


@pytest.mark.parametrize("name", ["", "x", "ä", "0" * 32])
def test_an_answer_to_other_work_is_not_taken(name: str) -> None:
    mailbox = Mailbox()
    names = asked(mailbox, ANN, BOB)

    assert not mailbox.put(ANN, name, b"mine")
    assert not mailbox.put(ANN, names[BOB], b"mine")


def test_whoever_is_asked_again_before_answering_keeps_the_name_of_the_work() -> None:
    mailbox = Mailbox()
    first = asked(mailbox, ANN)

    assert asked(mailbox, ANN) == first
    mailbox.put(ANN, first[ANN], b"mine")
    assert asked(mailbox, ANN) == {}, "the answer is here, and nobody has taken it yet"
    mailbox.answers(wait=0.0)
    assert asked(mailbox, ANN) != first


def test_answers_take_room_until_the_round_loop_takes_them() -> None:
    mailbox = Mailbox(most_held=10)
    names = asked(mailbox, ANN)

    mailbox.put(ANN, names[ANN], b"8 bytes!")

    assert (mailbox.held, has_room(mailbox, 3)) == (8, False)
    mailbox.answers(wait=0.0)
    assert (mailbox.held, has_room(mailbox, 10)) == (0, True)


def test_answers_take_room_as_they_arrive_and_not_as_they_are_said_to_be() -> None:
    """37 devices that send one byte of an answer and nothing more hold 37 bytes."""
    mailbox = Mailbox(most_held=1000)
    with ExitStack() as stack:
        for number in range(37):
            stack.enter_context(mailbox.arriving(str(number), _nothing))(1)

        assert mailbox.held == 37
        assert (has_room(mailbox, 963), has_room(mailbox, 964)) == (True, False)
    assert mailbox.held == 0


def test_an_answer_without_room_leaves_what_was_held() -> None:
    mailbox = Mailbox(most_held=10)

    with mailbox.arriving(ANN, _nothing) as take:
        take(6)
        with pytest.raises(NoRoomError):
            take(5)

    assert mailbox.held == 0


def test_of_one_device_one_answer_is_on_its_way() -> None:
    mailbox, given_up = Mailbox(), list[str]()
    asked(mailbox, ANN)

    def give_up(name: str) -> Callable[[], None]:
        return lambda: given_up.append(name)

    with mailbox.arriving(ANN, give_up("older")), mailbox.arriving(ANN, give_up("newer")):
        with mailbox.arriving(BOB, give_up("of another")):
            assert given_up == ["older"]
        mailbox.end()
    assert given_up == ["older", "newer"]


def test_the_end_of_a_question_gives_its_room_back_and_takes_nothing_more() -> None:
    mailbox = Mailbox(most_held=10)
    names = asked(mailbox, ANN, BOB)
    mailbox.put(ANN, names[ANN], b"x" * 10)

    mailbox.end()

    assert has_room(mailbox, 10)
    assert mailbox.answers(wait=0.0) == []
    assert not mailbox.put(BOB, names[BOB], b"late")
    assert asked(mailbox, BOB) != {BOB: names[BOB]}


def test_work_ends_with_its_time() -> None:
    now = [0.0]
    mailbox = Mailbox(clock=lambda: now[0])
    names = asked(mailbox, ANN)
    now[0] = 10.1

    assert mailbox.work_of(ANN) is None
    assert not mailbox.put(ANN, names[ANN], b"late")


def test_whoever_waits_is_woken_by_the_first_answer_and_by_the_end() -> None:
    mailbox = Mailbox()
    names = asked(mailbox, ANN)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(mailbox.answers, wait=60.0)
        mailbox.put(ANN, names[ANN], b"mine")
        assert [answer.content for answer in first.result(timeout=30)] == [b"mine"]

        began = threading.Event()

        def wait() -> list[Reply]:
            began.set()
            return mailbox.answers(wait=60.0)

        second = threads.submit(wait)
        began.wait()
        while not second.done():  # the waiter may not have begun to wait at the first end
            mailbox.end()
            time.sleep(0.001)
        assert second.result() == []


def test_threads_that_put_and_take_lose_no_answer_and_no_room() -> None:
    mailbox = Mailbox()
    keys = [f"{number:064x}" for number in range(400)]
    names = asked(mailbox, *keys)

    def put(some: list[str]) -> None:
        for key in some:
            with mailbox.arriving(key, _nothing) as take:
                take(3)
            assert mailbox.put(key, names[key], b"abc")

    found = list[str]()
    with ThreadPoolExecutor() as threads:
        work = [threads.submit(put, keys[start::4]) for start in range(4)]
        while len(found) < len(keys):
            found += [answer.node for answer in mailbox.answers(wait=10.0)]
        for one in work:
            one.result()

    assert sorted(found) == keys
    assert mailbox.held == 0


def test_where_the_clock_was_put_back_nobody_is_there_who_has_not_come_since() -> None:
    """Or a round would begin with devices that left days ago, wait for them, and be lost."""
    now = [1_000_000.0]
    seen = Seen(clock=lambda: now[0])
    seen.asks("ann", version="", pause=1.0)
    seen.asks("bob", version="", pause=1.0)
    now[0] -= 86_400
    assert seen.here() == []
    seen.asks("bob", version="", pause=1.0)
    assert seen.here() == ["bob"]


def test_a_device_that_came_late_may_be_as_late_again_and_one_that_was_away_may_not() -> None:
    now = [1000.0]
    seen = Seen(clock=lambda: now[0])

    def here(after: float) -> bool:
        at, now[0] = now[0], now[0] + after
        found = ANN in seen.here()
        now[0] = at
        return found

    def comes(after: float) -> None:
        now[0] += after
        seen.asks(ANN, version="", pause=100.0)

    comes(0)
    assert (here(229), here(231)) == (True, False)
    comes(350)
    assert (here(729), here(731)) == (True, False)
    comes(1_000_000)
    assert (here(829), here(831)) == (True, False)


def test_a_version_that_is_none_is_not_kept() -> None:
    seen = Seen()
    for key, version in ((ANN, "0.1.0+local"), (BOB, "<b>0.1.0</b>")):
        seen.asks(key, version=version, pause=1.0)

    assert [device.version for _, device in seen.devices()] == ["0.1.0+local", ""]
