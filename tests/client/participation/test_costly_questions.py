"""Questions that would cost a device much more to check than honest ones do: refused before that is spent."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedboard.client.participation.ledger import DeviceLedger
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import MOST_RELEASES
from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.messages.question import Question
from fedboard.common.messages.refusals import Refusal
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.privacy.releases.pure import LaplaceRelease
from tests.client.certified_boards import Device, a_question, with_certificate
from tests.common.algorithms.conftest import a_task

pytestmark = pytest.mark.slow

TASK = a_task(epsilon=5.0)
POLICY = Policy(epsilon=8.0, delta=1e-5, smallest_catalogue=5)
BUDGET = Budget(epsilon=1000.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
AT_WORST = (MOST_RELEASES - 3) // 2
"""Rounds of a run of as many releases as are taken: two each, and three before."""


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path / "device", POLICY)


@pytest.fixture
def accounted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many releases the ledger was asked to account, call by call."""
    seen: list[int] = []
    original = DeviceLedger.cost_with

    def counting(ledger: DeviceLedger, requests: Any, **how: Any) -> float:
        seen.append(len(requests))
        return original(ledger, requests, **how)

    monkeypatch.setattr(DeviceLedger, "cost_with", counting)
    return seen


def first_board(task: AdaDpals, boards: list[Board]) -> Board:
    return task.first_board(boards[0].catalogue)


def test_a_plan_of_too_many_releases_is_refused_before_it_is_accounted(
    device: Device, boards: list[Board], accounted: list[int]
) -> None:
    longest = a_task(epsilon=5.0, rounds=AT_WORST)
    longer = a_task(epsilon=5.0, rounds=AT_WORST + 1)

    assert device.code(first_board(longer, boards)) is Refusal.BAD_BOARD
    assert device.booked() == []
    assert accounted == []
    assert device.code(first_board(longest, boards)) is None
    assert set(accounted) == {2 * AT_WORST + 3}


def test_a_description_that_is_too_long_is_not_read(device: Device, boards: list[Board]) -> None:
    """A board in a file may have a longer one: nobody sends that unasked."""
    stated = dict(boards[1].certificate or {})
    padded = boards[1].with_certificate({**stated, "dataset": "x" * Question.MAX_BOARD_HEADER})

    assert device.code(padded) is Refusal.BAD_BOARD
    assert device.refusals() == {Refusal.BAD_BOARD: 1}
    path = device.folder / "long.board"
    padded.save(path)
    assert Board.load(path).digest == boards[1].digest
    assert len(a_question(boards[1]).content) < Question.MAX_BOARD_HEADER


def test_the_description_of_the_longest_run_fits(boards: list[Board], tmp_path: Path) -> None:
    """Configuration and certificate of a run of as many releases as are taken."""
    task = a_task(epsilon=5.0, rounds=AT_WORST)
    event = {**TASK.requests(boards[1])[0].release.event(), "noise": SecureNoise.label, "private": True}
    releases = [{**event, "name": f"round-{number}/quadratic"} for number in range(MOST_RELEASES)]
    board = replace(first_board(task, boards), certificate={"releases": releases})
    content = board.to_bytes()

    length = int.from_bytes(content[:8], "little")
    assert len(json.dumps(releases)) < length < Question.MAX_BOARD_HEADER


def events_of(boards: list[Board], *, sampled: int = 0, plain: int = 0) -> Iterator[dict[str, Any]]:
    """What the first round booked, and so many releases more."""
    for request in TASK.requests(boards[0]):
        yield request.release.event()
    for number in range(sampled + plain):
        coin = {"kind": "poisson", "probability": 0.01, "round": f"round {number}"}
        more = replace(
            TASK.requests(boards[0])[0].release,
            name=f"more {number}",
            noise_multiplier=50.0,
            participation=coin if number < sampled else None,
        )
        yield more.event()


def laplace() -> dict[str, Any]:
    return LaplaceRelease(
        name="other noise",
        width=1,
        grid_step=1.0,
        l1_bound=1,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=10.0,
        covers="a number",
    ).event()


def certified_by(
    events: Iterable[dict[str, Any]], board: Board, place: Path, plan: dict[str, Any] | None = None
) -> Board:
    with Ledger.create(place, BUDGET, plan=plan) as ledger:
        ledger.book_all([{**event, "noise": SecureNoise.label, "private": True} for event in events])
        return with_certificate(replace(board, certificate=None), ledger)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many releases the certificates had that were recomputed."""
    seen: list[int] = []
    original = Certificate.verify

    def counting(certificate: Certificate, **how: Any) -> list[Finding]:
        seen.append(len(certificate.releases))
        return original(certificate, **how)

    monkeypatch.setattr(Certificate, "verify", counting)
    return seen


def test_a_certificate_that_takes_long_to_recompute_is_refused_before_it_is(
    device: Device, boards: list[Board], verified: list[int], tmp_path: Path
) -> None:
    own = len(TASK.requests(boards[0]))
    costly = {
        "many sampled rounds": events_of(boards, sampled=65),
        "other noise": (*events_of(boards), laplace()),
        "many releases": events_of(boards, plain=MOST_RELEASES - own + 1),
    }
    made = {name: certified_by(events, boards[1], tmp_path / name) for name, events in costly.items()}
    bearable = certified_by(events_of(boards, sampled=64), boards[1], tmp_path / "bearable")
    verified.clear()

    assert {name: device.code(board) for name, board in made.items()} == dict.fromkeys(
        costly, Refusal.BAD_BOARD
    )
    assert verified == []
    assert device.booked() == []
    assert device.code(bearable) is None
    assert verified == [own + 64]


SIZES = {"one name": 800_000, "wide letters": 800_000, "many names": 800_000, "empty lists": 1_000_000}


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each of them costs, in a process of its own."""
    asked = [str(word) for case in SIZES.items() for word in case]
    command = [
        sys.executable,
        "-m",
        "tests.client.participation.costly_boards",
        str(tmp_path_factory.mktemp("costs")),
    ]
    ended = subprocess.run(
        [*command, *asked],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert ended.returncode == 0, ended.stderr
    return dict(zip(SIZES, map(json.loads, ended.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("case", SIZES)
def test_a_question_that_the_server_has_signed_costs_at_most_32_times_its_bytes(
    case: str, costs: dict[str, Any]
) -> None:
    """Text becomes objects of Python; whoever is not the server has no such question read at all."""
    found = costs[case]

    assert found["refused"] in (["singles-out"], ["bad-board"])
    assert found["grown"] < 32 * found["sent"] + (64 << 20)


def whole_plan(board: Board) -> dict[str, Any]:
    """All that the run will ask for, as its boards state it."""
    return dict(board.config["noise_multipliers"])


def test_a_plan_that_takes_long_to_recompute_is_refused_before_it_is(
    device: Device, boards: list[Board], verified: list[int], tmp_path: Path
) -> None:
    whole = whole_plan(boards[1])
    many = {f"more-{number}": 1e6 for number in range(MOST_RELEASES + 1 - len(whole))}
    coins = {
        f"coin-{number}": {
            "noise_multiplier": 1e6,
            "participation": {"kind": "poisson", "probability": 0.5, "round": f"r{number}"},
        }
        for number in range(65)
    }
    made = [
        certified_by(events_of(boards), boards[1], tmp_path / name, plan={**whole, **more})
        for name, more in (("many", many), ("coins", coins))
    ]
    verified.clear()

    assert [device.code(board) for board in made] == [Refusal.BAD_BOARD] * 2
    assert verified == []


def test_a_board_must_claim_all_that_its_run_will_ask_for(
    device: Device, boards: list[Board], tmp_path: Path
) -> None:
    """A claim of a part of the plan is one of what had been spent when somebody stopped."""
    whole = whole_plan(boards[1])
    made = {str(event["name"]) for event in events_of(boards)}
    part = {name: z for name, z in whole.items() if name in made}
    quieter = {**whole, **{name: 2 * z for name, z in whole.items() if name not in made}}

    for name, plan in (("part", part), ("quieter", quieter)):
        board = certified_by(events_of(boards), boards[1], tmp_path / name, plan=plan)
        assert Certificate.from_dict(dict(board.certificate or {})).holds
        assert device.code(board) is Refusal.BAD_BOARD
    assert device.code(certified_by(events_of(boards), boards[1], tmp_path / "whole", plan=whole)) is None
