"""Rounds of devices that Flower carries and devices that come to the door: the same sums, whoever is killed."""

import select
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from fedboard.client.node.node import DirectNode
from fedboard.client.node.settings import NodeSettings
from fedboard.client.node.tally import Tally
from fedboard.common.rounds.question import Question, refusal
from fedboard.common.wire import direct as wire
from fedboard.common.wire.refusals import Refusal
from fedboard.server.fleet.line.messages import LineError
from tests.client.asking import ASKER
from tests.server.fleet.door.open_door import OpenDoor, open_door
from tests.server.fleet.local_fleet import Fleet, Outcome, Phone, digests, phone

pytestmark = pytest.mark.slow
NAMES = ("a", "b", "c", "d")
"""Devices, by the number of the node whose ratings they have."""
DIRECT = NAMES[2:]
"""In most trainings; the first two nodes are carried by Flower then."""
SECURE: dict[str, Any] = {"protocol": "secure-sum", "protocol_settings": {"survivors": 3, "most_users": 400}}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    with open_door(
        tmp_path_factory.mktemp("door"), members=NAMES, max_users=100, requests=1_000_000, polls=1000.0
    ) as found:
        yield found


@pytest.fixture(scope="module")
def by_flower(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return Fleet(tmp_path_factory.mktemp("flower") / "fleet").run()


@contextmanager
def devices(
    door: OpenDoor, names: Sequence[str], phone_of: Callable[[int], Phone] = phone
) -> Iterator[dict[str, Tally]]:
    """These come to the door, while the block runs."""
    stop, tallies, threads = Event(), {}, []
    for name in names:
        one = phone_of(NAMES.index(name))
        settings = NodeSettings(
            server=f"127.0.0.1:{door.port}",
            root_certificate=door.folder / "authority.pem",
            private_key=door.folder / name / "node.key",
            poll_seconds=0.05,
        )
        node = DirectNode(settings, lambda one=one: nullcontext((one, one)))  # type: ignore[misc]
        tallies[name] = node.tally
        threads.append(Thread(target=node.run, args=(stop,), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield tallies
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def mixed(
    door: OpenDoor,
    folder: Path,
    looked: Callable[[int], None] = lambda _: None,
    *,
    names: Sequence[str] = DIRECT,
    **settings: Any,
) -> Outcome:
    """A training of nodes of Flower's and devices at the door.

    Args:
        door: open.
        folder: of the training.
        names: of the devices at the door; the others are carried by Flower.
        looked: is told at each look for answers how many rounds were made.
        settings: of the job.
    """
    by_flower = [f"key-{number}" for number, name in enumerate(NAMES) if name not in names]
    nodes = dict.fromkeys((*by_flower, *(door.pem[name] for name in names)), 100)
    usual = {
        "nodes": nodes,
        "line": str(door.state.line),
        "expected_nodes": 4,
        "quorum": 4,
        "grace_seconds": 60.0,
        "deadline_seconds": 300.0,  # on a busy machine, too
    }
    fleet = Fleet(folder, n_nodes=len(by_flower), settings={**usual, **settings})
    log = folder / "rounds.jsonl"

    def look(nodes: list[int]) -> None:
        looked(len(log.read_text().splitlines()) if log.exists() else 0)

    fleet.weather = replace(fleet.weather, pull_fails=look)
    with devices(door, names):
        return fleet.run()


def test_who_carries_a_device_changes_nothing_that_is_published(
    door: OpenDoor, by_flower: Outcome, tmp_path: Path
) -> None:
    found = mixed(door, tmp_path / "fleet")

    assert [line["answers"] for line in found.rounds] == [4] * len(found.rounds)
    assert found.refused == {}
    assert digests(found.folder) == digests(by_flower.folder)


def test_a_door_that_is_killed_in_a_round_costs_no_answer(
    door: OpenDoor, by_flower: Outcome, tmp_path: Path
) -> None:
    killed = list[int]()

    def kill_once(made: int) -> None:
        if made == 1 and not killed:
            killed.append(made)
            door.kill()
            door.start()

    found = mixed(door, tmp_path / "fleet", kill_once, resend_seconds=600.0)

    assert killed == [1]
    assert [line["attempts"] for line in found.rounds] == [1] * len(found.rounds), (
        "nobody waited for a deadline"
    )
    assert [line["lost"] for line in found.rounds] == [False] * len(found.rounds)
    assert digests(found.folder) == digests(by_flower.folder)


@dataclass
class Stalling:
    """A member that announces to each question more than a door holds, in large answers and ever smaller ones,
    sends a byte of each and keeps them open; it refuses, which ends the round, once the others have answered.
    """

    door: OpenDoor
    name: str
    stalled: defaultdict[int, Event] = field(default_factory=lambda: defaultdict(Event))
    """By round: set while the door has them."""

    def run(self, stop: Event, others: Mapping[str, Tally]) -> None:
        device, done = self.door.device(self.name), -1
        while not stop.wait(0.02):
            received = device.receive()
            if received is None or received.frame is None:
                continue
            number = Question.from_bytes(ASKER.content(received.frame)).round
            if number > done:
                with ExitStack() as stack:
                    self._stall(received.work, stack)
                    self.stalled[number].set()
                    while not stop.is_set() and any(tally.answered <= number for tally in others.values()):
                        time.sleep(0.02)
                    device.send(received.work, refusal(Refusal.NOT_ALLOWED))
                done = number

    def _stall(self, work: str, stack: ExitStack) -> None:
        held = list[socket.socket]()
        for length in (*[28_000_000] * 10, *(1 << power for power in range(24, 8, -1))):
            held.append(sock := stack.enter_context(self.door.tls()))
            sock.sendall(self.door.request(self.name, wire.ANSWER_PATH, work=work, length=length) + b"x")
        assert select.select(held, [], [], 60)[0], "whatever the door does not keep is answered at once"


@dataclass(frozen=True)
class Behind(Phone):
    """Answers after the door was attacked."""

    attack: Stalling

    def admit(self, question: Question, *rest: Any) -> float:
        assert self.attack.stalled[question.round].wait(60)
        return 1.0


def test_a_member_that_stalls_with_all_it_announces_loses_nobody_a_round(
    door: OpenDoor, tmp_path: Path
) -> None:
    attack, stop = Stalling(door, "d"), Event()
    users = {door.pem[name]: 14_000 if name == "d" else 100 for name in NAMES}
    settings = {"nodes": users, "line": str(door.state.line), "quorum": 3, "attempts": 1}
    fleet = Fleet(
        tmp_path / "fleet", n_nodes=0, settings={**settings, "expected_nodes": 4, "deadline_seconds": 60.0}
    )

    with devices(door, NAMES[:3], lambda number: Behind(phone(number).ratings, attack)) as others:
        stalling = Thread(target=attack.run, args=(stop, others), daemon=True)
        stalling.start()
        try:
            found = fleet.run()
        finally:
            stop.set()
            stalling.join(60)

    assert [(line["answers"], line["lost"]) for line in found.rounds] == [(3, False)] * len(found.rounds)


def test_a_session_of_steps_goes_over_the_door_too(door: OpenDoor, tmp_path: Path) -> None:
    found = mixed(door, tmp_path / "fleet", names=NAMES, **SECURE)

    assert [line["answers"] for line in found.rounds] == [4] * len(found.rounds)
    assert [len(line["steps"]) for line in found.rounds] == [4] * len(found.rounds)
    assert {line["protocol"] for line in found.rounds} == {"secure-sum"}


def test_a_round_loop_that_dies_leaves_a_question_that_the_next_one_ends(door: OpenDoor) -> None:
    left, connection = door.ask("c"), door.device("c")
    received = connection.receive()
    assert received is not None

    next_one = door.ask("c", frame=b"of another life")
    with pytest.raises(Exception, match="status 410"):
        connection.send(received.work, b"to one who is dead")

    again = connection.receive()
    assert again is not None
    connection.send(again.work, b"to one who lives")
    assert [one.content for one in next_one.answers()] == [b"to one who lives"]
    assert left.answers() == []


def test_without_a_door_the_nodes_that_flower_carries_are_asked(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "fleet", settings={"line": str(tmp_path / "nowhere"), "quorum": 4})

    found = fleet.run()

    assert [line["answers"] for line in found.rounds] == [4] * len(found.rounds)


def test_what_is_said_on_the_line_that_is_no_message_ends_that_connection_alone(door: OpenDoor) -> None:
    place = door.state.line.read_text()
    for rubbish in (b"\0" * 7 + b"\5" + b"\xc1\xc1\xc1\xc1\xc1", b"\xff" * 64):
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(10)
            one.connect(place)
            one.sendall(rubbish)
            assert one.recv(1) == b""

    assert isinstance(door.line.present(), list)
    door.line.close()
    with pytest.raises(LineError):
        type(door.line)(door.folder / "nowhere").present()
