"""Configurations in a message: ours are small, few and hold bytes; any other is refused before Flower reads it."""

from collections.abc import Callable
from itertools import count

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedboard.common.rounds.flower_parts import SMALL_BYTES, CountedParts, frames_of, message_of, record_of
from fedboard.common.wire.refusals import Refusal, RefusedError
from tests.client.fleet.hostile_messages import MIB, Parts, of_numbers, parts_of, random_bytes

LIMIT = 64 * MIB


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made by somebody."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def read(parts: Parts, limit: int = LIMIT) -> Message:
    contents = CountedParts(parts.__getitem__, limit).all(list(parts))
    return message_of(contents, list(parts)[-1])


def configurations(number: int, size: int) -> RecordDict:
    names = (f"{k}" for k in count())
    return RecordDict({next(names): ConfigRecord({"frame": random_bytes(size + k)}) for k in range(number)})


@pytest.mark.parametrize("board", [None, b"board"])
@pytest.mark.parametrize("size", [0, 100, SMALL_BYTES - 5, SMALL_BYTES, 6 * MIB])
def test_what_record_of_makes_is_read_whole(size: int, board: bytes | None) -> None:
    content = random_bytes(size)

    _, parts = parts_of(record_of(content, board))

    assert frames_of(read(parts).content) == (content, board)


def test_a_small_message_is_three_parts_and_a_board_one_more() -> None:
    assert [len(parts_of(record_of(b"x", board))[1]) for board in (None, b"board")] == [3, 4]


REFUSED: dict[str, Callable[[], Parts]] = {
    "numbers": lambda: of_numbers(
        parts_of(RecordDict({"fedboard": ConfigRecord({"frame": [1]})}))[1], 60_000
    ),
    "text": lambda: parts_of(RecordDict({"fedboard": ConfigRecord({"frame": "x" * 100})}))[1],
    "a list of bytes": lambda: parts_of(RecordDict({"fedboard": ConfigRecord({"frame": [b"x"]})}))[1],
    "another name": lambda: parts_of(RecordDict({"fedboard": ConfigRecord({"x": b"x"})}))[1],
    "two values": lambda: parts_of(RecordDict({"fedboard": ConfigRecord({"frame": b"x", "y": b"y"})}))[1],
    "nothing": lambda: parts_of(RecordDict({"fedboard": ConfigRecord()}))[1],
    "more than is small": lambda: parts_of(configurations(1, SMALL_BYTES + 300))[1],
    "three of them": lambda: parts_of(configurations(3, 10))[1],
    "hundreds of them": lambda: parts_of(configurations(400, 100))[1],
}


@pytest.mark.parametrize("case", REFUSED)
def test_another_configuration_is_refused_before_flower_reads_it(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = REFUSED[case]()

    def inflate(*_: object) -> None:
        raise AssertionError("Flower has read it")

    monkeypatch.setattr(ConfigRecord, "inflate", inflate)
    with pytest.raises(RefusedError) as refused:
        read(parts)

    assert refused.value.code is Refusal.MALFORMED


def test_configurations_count_like_everything_else() -> None:
    _, parts = parts_of(record_of(random_bytes(50_000)))

    with pytest.raises(RefusedError) as refused:
        read(parts, limit=40_000)

    assert refused.value.code is Refusal.TOO_LARGE


def test_small_messages_in_arrays_are_read_as_well() -> None:
    array = Array(dtype="uint8", shape=(1,), stype="fedboard.frame", data=b"x")

    _, parts = parts_of(RecordDict({"fedboard": ArrayRecord({"frame": array})}))

    assert len(parts) == 5
    assert frames_of(read(parts).content) == (b"x", None)
