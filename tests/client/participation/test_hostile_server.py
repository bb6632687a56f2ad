"""A server that is not honest, against a whole device: it gets a code, and nothing is booked, whatever it sends."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.client.participation.gate import DeviceGate
from fedboard.client.participation.ledger import DeviceLedger
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.records import BookedRounds, KeptAnswers, RefusalCounts
from fedboard.client.participation.rounds import respond
from fedboard.common.board import Board, Catalogue
from fedboard.common.messages.question import Question
from fedboard.common.messages.refusals import Refusal
from fedboard.common.messages.sealing import is_sealed
from tests.client.asking import ASKER, signed
from tests.client.certified_boards import (
    Device,
    Ratings,
    a_question,
    opened,
    refused,
)
from tests.common.algorithms.conftest import a_residual_task, a_task, population

TASK = a_task(epsilon=5.0)
POLICY = Policy(epsilon=8.0, delta=1e-5, smallest_catalogue=5)


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path / "device", POLICY)


def configured(board: Board, **config: Any) -> Board:
    return replace(board, config={**board.config, **config}, _digest=[])


HOSTILE: dict[str, Callable[[Board], Board]] = {
    "an unknown task": lambda board: replace(board, task="everything", _digest=[]),
    "a known task with another's configuration": lambda board: replace(board, task="residual", _digest=[]),
    "a key that is none": lambda board: configured(board, more=1),
    "a rank of zero": lambda board: configured(board, rank=0),
    "a rank beyond all memory": lambda board: configured(board, rank=10**9),
    "rounds without end": lambda board: configured(board, rounds=10**12),
    "rounds that are no number": lambda board: configured(board, rounds="four"),
    "no noise": lambda board: configured(board, noise_multipliers={}),
    "noise of zero": lambda board: configured(board, noise_multipliers={"mean/sum": 0.0}),
    "negative noise": lambda board: configured(
        board, noise_multipliers=dict.fromkeys(board.config["noise_multipliers"], -1.0)
    ),
    "noise that is hardly any": lambda board: configured(
        board, noise_multipliers=dict.fromkeys(board.config["noise_multipliers"], 0.001)
    ),
    "an adjacency that is none": lambda board: configured(board, adjacency="none"),
    "an empty catalogue": lambda board: replace(board, catalogue=Catalogue(item_ids=()), _digest=[]),
    "a catalogue of one item": lambda board: replace(board, catalogue=Catalogue(item_ids=("7",)), _digest=[]),
    "a negative version": lambda board: replace(board, version=-1, _digest=[]),
    "a version beyond the run": lambda board: replace(board, version=99, _digest=[]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_board_is_refused_and_nothing_is_booked(
    name: str, device: Device, boards: list[Board]
) -> None:
    assert device.code(HOSTILE[name](boards[0])) is not None
    assert device.booked() == []


def test_a_board_that_names_code_is_refused_and_the_code_does_not_run(
    device: Device, boards: list[Board], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is there, a module that could be imported, a record by its place: none of them is a name."""
    marker = tmp_path / "it-ran"
    record = "from fedboard.common.algorithms.adadpals.algorithm import ALGORITHM\n"
    (tmp_path / "evil.py").write_text(f"open({str(marker)!r}, 'w').close()\n{record}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    for task in (
        f"{tmp_path}/evil.py:ALGORITHM",
        "evil:ALGORITHM",
        "evil",
        "fedboard.common.algorithms.adadpals.algorithm:ALGORITHM",
        "../evil",
        "dpals-tail",
    ):
        assert device.code(replace(boards[0], task=task, _digest=[])) is Refusal.BAD_BOARD, task

    assert device.booked() == []
    assert not marker.exists()
    assert device.code(boards[0]) is None  # the control: it is the name


@pytest.fixture(scope="module")
def content(boards: list[Board]) -> bytes:
    return a_question(boards[1]).content


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    flips=st.lists(st.tuples(st.integers(min_value=0), st.integers(1, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(min_value=0, max_value=4000),
)
def test_a_question_that_was_changed_anywhere_never_crashes_and_never_costs(
    content: bytes, flips: list[tuple[int, int]], cut: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changed = bytearray(content)
    for place, by in flips:
        changed[place % len(content)] ^= by
    folder = tmp_path_factory.mktemp("device")
    with DeviceLedger.create(folder / "ledger.sqlite", POLICY.limit()) as ledger:
        gate = DeviceGate(
            policy=POLICY,
            ledger=ledger,
            answers=KeptAnswers(folder / "answers"),
            asker=ASKER,
            booked=BookedRounds(folder / "booked.json"),
            refusals=RefusalCounts(folder / "refusals.json"),
        )
        reply = respond(signed(bytes(changed[:cut])), source=Ratings(), gate=gate)
        booked = {given.run for given in ledger.given()}

    if not is_sealed(reply):
        assert refused(reply) is not None
        assert booked == set()
        return
    question = Question.from_bytes(bytes(changed[:cut]))
    if question.reply_key != a_question(question.board).reply_key:  # then nobody can read it
        assert len(booked) <= 1
    elif refused(opened(reply, question)) is not None:
        assert booked == set()
    else:  # padding, or the name of the run: a question all the same, and it is paid for
        assert len(booked) == 1


def test_a_board_of_another_task_under_the_same_name_of_a_run_is_refused(
    device: Device, boards: list[Board]
) -> None:
    residual = a_residual_task(epsilon=1.0)
    device.ask(boards[0])
    before = device.booked()

    assert device.code(residual.first_board(boards[0].catalogue)) is Refusal.OTHER_HISTORY
    assert device.booked() == before


def test_a_thousand_refusals_take_no_more_room_than_one(device: Device, boards: list[Board]) -> None:
    device.policy = Policy(epsilon=8.0, delta=1e-5, runs=("mine",))
    counts = RefusalCounts(device.folder / "refusals.json")
    counts.add(Refusal.NOT_ALLOWED)
    size = (device.folder / "refusals.json").stat().st_size
    for number in range(30):
        assert device.code(boards[0], run=f"run-{number}") is Refusal.NOT_ALLOWED

    assert device.refusals() == {Refusal.NOT_ALLOWED: 31}
    assert (device.folder / "refusals.json").stat().st_size <= size + 1


def test_more_runs_than_the_limit_bears_are_not_answered(device: Device, boards: list[Board]) -> None:
    """The same question under ever new names: the first is answered, no other."""
    codes = [device.code(boards[0], run=f"run-{number}") for number in range(8)]

    assert codes[0] is None
    assert device.spent() <= 8.0
    assert population().n_users > 0
    assert all(code in (None, Refusal.OVER_LIMIT) for code in codes)
