"""Who is asked in a round: who is a member when it begins and still is when an answer is taken, by a mailbox."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from fedboard.client.participation.steps import Client, MemoryVault, respond_to
from fedboard.common.errors import SettingError, StorageError, TooFewAnswersError
from fedboard.common.messages.question import ROUND
from fedboard.common.messages.step import StepMessage
from fedboard.server.fleet.mailbox import Mailbox, Message, Reply
from fedboard.server.fleet.register import Capacity, Register
from fedboard.server.fleet.rounds.asking import MemberNodes, Roster
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.state_folder import RoundLog
from tests.server.fleet.local_fleet import N_NODES, Fleet, Outcome, Weather, digests, job_with, phone
from tests.server.fleet.rounds.test_session_rounds import MASKED, SECURE, UNMASK, Nodes, run
from tests.server.fleet.rounds.test_session_rounds import run as calm

pytestmark = pytest.mark.slow


ROOM = Capacity(devices=9, users=10_000)


def admit(register: Register, number: int, *, users: int = 100) -> None:
    """A device joins with an invitation of its own."""
    name, secret = f"key-{number}", secrets.token_bytes(32)
    register.invite(secret, name=name, max_users=users, seconds=60)
    register.join(secret, name, capacity=ROOM)


def members_of(fleet: Fleet, *numbers: int, most_users: int = 800) -> Register:
    """The register of a fleet, in which these are members; the rounds read it as on a server."""
    fleet.folder.mkdir(exist_ok=True)
    place = fleet.folder / "members.sqlite"
    register = Register(place)
    for number in numbers:
        admit(register, number)
    fleet.members = MemberNodes(Mailbox(), place, most_users=most_users).admitted
    return register


def changed_in_round(fleet: Fleet, number: int, change: Callable[[], object]) -> Outcome:
    """Run, and do this once in that round, when the first answers are looked for."""
    done = list[int]()
    log = fleet.folder / "rounds.jsonl"

    def looked(nodes: list[int]) -> None:
        made = len(log.read_text().splitlines()) if log.exists() else 0
        if made == number and not done:
            done.append(made)
            change()

    fleet.weather.looked = looked
    return fleet.run()


def answers(outcome: Outcome) -> list[int]:
    return [line["answers"] for line in outcome.rounds]


def test_what_a_device_sends_after_it_was_removed_is_refused_and_no_round_is_lost(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", settings={"quorum": 3, "expected_nodes": 4})
    register = members_of(fleet, 0, 1, 2, 3)

    outcome = changed_in_round(fleet, 1, lambda: register.remove("key-3"))

    told = answers(outcome)
    assert told[0] == 4
    assert set(told[1:]) == {3}
    assert outcome.refused["unknown-node"] >= 1
    assert not any(line["lost"] for line in outcome.rounds)
    assert outcome.asked[3] < outcome.asked[0], "it is asked no more"


@pytest.mark.parametrize("step", [MASKED, UNMASK])
def test_a_device_that_is_removed_in_a_session_has_dropped_out(tmp_path: Path, step: int) -> None:
    """Before its masked input is taken it is not in the sum; afterwards the others take its mask off."""
    fleet = Fleet(tmp_path / "fleet")
    register = members_of(fleet, 0, 1, 2, 3)

    def remove(asked: StepMessage, sent: bytes) -> bytes:
        if (asked.round, asked.number) == (1, step):
            register.remove("key-3")
        return sent

    spoilt = Nodes(spoilt={3: remove})
    lines = run(fleet.folder, spoilt, members=fleet.members, grace_seconds=0.05, **fleet.settings)

    answered = [line["answers"] for line in lines]
    assert answered[:2] == [4, 3 if step == MASKED else 4]
    assert set(answered[2:]) == {3}
    assert lines[1]["refused"] == {"unknown-node": 1}
    assert not any(line["lost"] for line in lines)


def test_who_joins_in_a_round_takes_part_in_the_next(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", settings={"quorum": 2, "expected_nodes": 4})
    register = members_of(fleet, 0, 1, 2)

    outcome = changed_in_round(fleet, 1, lambda: admit(register, 3))

    told = answers(outcome)
    assert told[:2] == [3, 3]
    assert set(told[2:]) == {4}
    assert not any(line["lost"] for line in outcome.rounds)


def test_whoever_is_removed_and_comes_back_with_another_key_is_in_no_round_twice(tmp_path: Path) -> None:
    """Her answer is in the sum already, and her new key's would be a second one."""
    fleet = Fleet(tmp_path / "fleet", settings={"quorum": 2, "expected_nodes": 4})
    register = members_of(fleet, 0, 1, 2)
    alone = Fleet(tmp_path / "alone", settings={"quorum": 2, "expected_nodes": 4})
    members_of(alone, 0, 1, 2)
    undisturbed = alone.run()
    held = {"now": True}
    fleet.weather.holds = lambda node: (
        node == 0 and held["now"]
    )  # so that the round goes on after hers is taken

    def come_back() -> None:
        register.remove("key-2")
        admit(register, 3)

    seen = list[int]()
    log = fleet.folder / "rounds.jsonl"

    def looked(nodes: list[int]) -> None:
        made = len(log.read_text().splitlines()) if log.exists() else 0
        if made == 0 and 2 not in nodes and not seen:  # taken: nobody waits for it any more
            seen.append(1)
            come_back()
        held["now"] = made == 0 and len(seen) < 20
        if seen:
            seen.append(1)

    fleet.weather.looked = looked
    outcome = fleet.run()

    assert answers(outcome)[0] == 3
    assert digests(fleet.folder)[1] == digests(alone.folder)[1], "the first sum is that of the first three"
    assert undisturbed.asked[3] == 0
    assert outcome.asked[3] == len(outcome.rounds) - 1, "nobody is asked to give what is not taken"


def test_a_fleet_begins_without_devices_and_waits_for_those_who_join(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", settings={"quorum": 2, "expected_nodes": 3})
    register = members_of(fleet)
    looks = list[int]()

    def present() -> range:
        looks.append(1)
        if len(looks) == 5:
            for number in range(3):
                admit(register, number)
        return range(4)

    fleet.weather = Weather(present=present)
    outcome = fleet.run()

    assert set(answers(outcome)) == {3}


def test_nobody_is_asked_where_the_members_left_are_too_few(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", settings={"quorum": 2, "deadline_seconds": 0.2})
    members_of(fleet, 0)

    with pytest.raises(TooFewAnswersError, match="1 nodes are there and the quorum is 2; nobody was asked"):
        fleet.run()


def test_whoever_may_still_answer_is_counted_once(tmp_path: Path) -> None:
    """A node that has answered is a member too, and one that was removed has answered all the same."""
    fleet = Fleet(tmp_path / "fleet")
    roster = Roster(fleet.nodes(), fleet.job)

    assert roster.can_answer({"key-0"}, {"key-1"}) == 3
    assert roster.can_answer({"key-0", "removed"}, {"key-1", "key-2"}) == 3
    assert roster.can_answer({"key-0", "key-1"}, {"key-0"}) == 4


def test_more_users_than_the_sums_are_sized_for_are_never_in_a_round(tmp_path: Path) -> None:
    """However they got into the register."""
    register = Register(tmp_path / "members.sqlite")
    for number, users in enumerate((500, 300, 1)):
        admit(register, number, users=users)

    nodes = MemberNodes(Mailbox(), tmp_path / "members.sqlite", most_users=800)

    assert nodes.admitted() == {"key-0": 500, "key-1": 300}


def test_a_register_that_is_none_stops_the_training(tmp_path: Path) -> None:
    (tmp_path / "members.sqlite").write_text("no database\n" * 100)

    with pytest.raises(StorageError, match="register of devices cannot be used"):
        MemberNodes(Mailbox(), tmp_path / "members.sqlite", most_users=1)


@pytest.mark.parametrize("drawn", [{"probability": 0.5}, {"size": 3}, {"cohorts": 2}])
def test_a_register_and_a_draw_among_so_many_users_do_not_go_together(drawn: dict[str, Any]) -> None:
    enrolled = Capacity(devices=1, users=1)
    usual = {"folder": "f", "first_board": "b", "question_key": "k", "expected_nodes": 1, "quorum": 1}
    adjacency = {} if "probability" in drawn else {"adjacency": "replace"}

    with pytest.raises(SettingError, match="draws from users whose number is fixed"):
        job_with(**usual, epsilon=1.0, enrolled=enrolled, **drawn, **adjacency)


TRUSTED = {"protocol": "trusted", "protocol_settings": {}}
KEYS = [f"key-{number}" for number in range(N_NODES)]


@pytest.fixture
def register(tmp_path: Path) -> Register:
    found = Register(tmp_path / "members.sqlite")
    for number in range(N_NODES):
        admit(found, number)
    return found


def members(tmp_path: Path, mailbox: Mailbox) -> MemberNodes:
    return MemberNodes(mailbox, tmp_path / "members.sqlite", most_users=400)


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
    nodes.ask({"key-0": Message(ROUND, b"?", b"board")}, largest=10, seconds=9.0)
    work = mailbox.work_of("key-0")
    assert work is not None
    assert (work.message.kind, work.message.frame, work.message.beside) == (ROUND, b"?", b"board")

    thread = Thread(target=lambda: mailbox.put("key-0", work.name, b"!"))
    began = time.monotonic()
    thread.start()
    assert nodes.replies(wait=60.0) == [Reply("key-0", b"!")]
    assert time.monotonic() - began < 30
    thread.join()

    nodes.ask({"key-0": Message(ROUND, b"?")}, largest=10, seconds=9.0)
    nodes.close()
    assert mailbox.work_of("key-0") is None
