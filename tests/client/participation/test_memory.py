"""What a device takes of memory: while it answers, and for a question that is as large as it takes.

Each device is a process of its own, ``fedboard client --once``, whose peak is read at its end.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedboard.client.participation.joining import join
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.messages.devices import DeviceKey
from fedboard.common.messages.enrolment import Introduction, fresh_secret
from fedboard.common.messages.refusals import Refusal
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.server.fleet.mailbox import Message
from tests.client.asking import SERVER, opened, signed
from tests.client.certified_boards import a_question, certified_boards, refused
from tests.common.algorithms.conftest import a_task
from tests.server.fleet.open_devices import OpenDevices, open_devices
from tests.server.vouched import vouched_pair

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says what a process takes"),
]
MIB = 1 << 20
LEAST = 90e6
"""Bytes that a device takes for a small question: 80 to 83 MB, of which the libraries alone take 70."""
DEVICE = """
import sys
from fedboard.cli.main import commands
from fedboard.client.starting import start_quickly
start_quickly()
try:
    commands(["client", "--config", sys.argv[1], "--once"])
finally:
    print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OpenDevices]:
    folder = vouched_pair(tmp_path)
    content = Introduction(
        run="movies",
        task="adadpals",
        protocol="trusted",
        epsilon=8.0,
        delta=1e-5,
        adjacency=Adjacency.ADD_REMOVE,
        authority=(folder / "authority.pem").read_text(),
        question_key=SERVER.public.hex,
    ).to_bytes()
    with open_devices(folder, introduction=content) as found:
        yield found


def asked(server: OpenDevices, home: Path, content: bytes) -> tuple[bytes, int]:
    """The answer of a new device, and the most bytes that its process ever took."""
    device = join(server.invite("ann", secret=fresh_secret()), home).device
    text = device.read_text()
    device.write_text(text.replace("[policy]", "[policy]\nsmallest_catalogue = 5", 1))
    with RatingStore.open(home / "ratings.sqlite") as ratings:
        ratings.put(OwnRating(item=str(number), rating=4.0) for number in range(5))
    key = DeviceKey.load(home / "device.key").public.hex()
    server.mailbox.ask({key: Message("query.round", content)}, largest=MIB, seconds=60.0)
    command = [sys.executable, "-c", DEVICE, str(device)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    (answer,) = server.mailbox.answers(wait=0.0)
    return answer.content, 1024 * int(ended.stdout.split()[-1])


def test_a_device_takes_at_most_90_megabytes_while_it_answers(server: OpenDevices, tmp_path: Path) -> None:
    boards = certified_boards(tmp_path, a_task(epsilon=5.0))
    question = a_question(boards[2])

    answer, peak = asked(server, tmp_path / "ann", signed(question.content))

    assert refused(opened(answer, question)) is None
    assert peak <= LEAST


def test_a_question_takes_a_few_times_its_bytes(server: OpenDevices, tmp_path: Path) -> None:
    """It is read to its end, and refused because nobody who is pinned has signed it."""
    size = 60 * MIB

    answer, peak = asked(server, tmp_path / "ann", b"x" * size)

    assert refused(answer) is Refusal.UNSIGNED
    assert peak < 3 * size + LEAST


def test_a_question_that_is_too_large_is_not_fetched(server: OpenDevices, tmp_path: Path) -> None:
    answer, peak = asked(server, tmp_path / "ann", b"x" * (65 * MIB))

    assert refused(answer) is Refusal.TOO_LARGE
    assert peak <= LEAST
