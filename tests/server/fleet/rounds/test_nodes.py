"""The devices of a fleet as the round loop asks them: a mailbox between two threads, and a register."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from fedboard.client.answering.steps import Client, MemoryVault, respond_to
from fedboard.common.rounds.question import ROUND
from fedboard.server.fleet.devices.mailbox import Mailbox
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.rounds.nodes import MemberNodes, Reply
from fedboard.server.fleet.running import RoundLog, run_job
from tests.server.fleet.local_fleet import N_NODES, Fleet, digests, phone
from tests.server.fleet.rounds.test_membership import admit
from tests.server.fleet.rounds.test_session_rounds import SECURE, Nodes
from tests.server.fleet.rounds.test_session_rounds import run as calm

TRUSTED = {"protocol": "trusted", "protocol_settings": {}}
KEYS = [f"key-{number}" for number in range(N_NODES)]


@pytest.fixture
def register(tmp_path: Path) -> Register:
    found = Register(tmp_path / "members.sqlite")
    for number in range(N_NODES):
        admit(found, number)
    return found


def members(tmp_path: Path, mailbox: Mailbox) -> MemberNodes:
    return MemberNodes(mailbox, tmp_path / "members.sqlite", most_users=400, halt=Event())


@contextmanager
def devices(mailbox: Mailbox, numbers: Sequence[int] = range(N_NODES)) -> Iterator[None]:
    """These come for work, one after the other, in a thread of their own: what the port does for each request."""
    stop, vaults = Event(), {number: MemoryVault() for number in numbers}

    def turn(number: int) -> None:
        key, one = f"key-{number}", phone(number)
        mailbox.seen.asks(key, version="", pause=0.0)
        if (work := mailbox.work_of(key)) is not None:
            client = Client(source=one, gate=one, vault=vaults[number])
            message = work.message
            sent = respond_to(message.kind, message.frame, message.beside or None, client)
            mailbox.put(key, work.name, sent)

    def come() -> None:
        while not stop.wait(0.001):
            for number in numbers:
                turn(number)

    thread = Thread(target=come, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [TRUSTED, {**SECURE, "deadline_seconds": 80.0}], ids=["trusted", "secure-sum"]
)
def test_a_mailbox_between_threads_changes_nothing_that_is_published(
    tmp_path: Path, register: Register, settings: Mapping[str, Any]
) -> None:
    mailbox, fleet = Mailbox(), Fleet(tmp_path / "run", settings=dict(settings))

    with devices(mailbox):
        run_job(members(tmp_path, mailbox), fleet.job)

    lines = RoundLog(tmp_path / "run" / "rounds.jsonl").lines()
    assert [(line["answers"], line["refused"]) for line in lines] == [(N_NODES, {})] * 3
    calm(tmp_path / "calm", Nodes(), **settings)
    assert digests(tmp_path / "run") == digests(tmp_path / "calm")
    assert mailbox.held == 0


def test_whoever_is_there_and_is_no_member_is_not_among_them(tmp_path: Path, register: Register) -> None:
    mailbox = Mailbox()
    nodes = members(tmp_path, mailbox)
    for key in ("key-0", "key-1", "stranger"):
        mailbox.seen.asks(key, version="", pause=0.0)

    assert nodes.present() == {"key-0": 100, "key-1": 100}
    assert list(nodes.admitted()) == KEYS
    register.remove("key-1")
    assert nodes.present() == {"key-0": 100}


def test_an_answer_wakes_whoever_waits_and_nothing_is_asked_after_the_end(
    tmp_path: Path, register: Register
) -> None:
    mailbox = Mailbox()
    nodes = members(tmp_path, mailbox)
    exchange = nodes.exchange(largest=10)
    exchange.send({"key-0": b"?"}, beside=b"board", kind=ROUND, seconds=9.0)
    work = mailbox.work_of("key-0")
    assert work is not None
    assert (work.message.kind, work.message.frame, work.message.beside) == (ROUND, b"?", b"board")

    thread = Thread(target=lambda: mailbox.put("key-0", work.name, b"!"))
    began = time.monotonic()
    thread.start()
    assert exchange.replies(wait=60.0) == [Reply("key-0", b"!")]
    assert time.monotonic() - began < 30
    thread.join()

    exchange.send({"key-0": b"?"}, beside=None, kind=ROUND, seconds=9.0)
    nodes.close()
    assert mailbox.work_of("key-0") is None
