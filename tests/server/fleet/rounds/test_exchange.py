"""Asking over a grid: one bad reply is one bad reply, and a link that is down is looked at again."""

import json
from collections import Counter
from pathlib import Path

import httpx
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedboard.common.rounds.flower_parts import SMALL_BYTES, frame_of, frames_of, record_of
from fedboard.common.rounds.question import Question
from fedboard.common.wire.refusals import Refusal
from fedboard.server.fleet.rounds.exchange import Exchange, Reply
from tests.client.asking import asking
from tests.server.fleet.local_fleet import (
    FIRST_BOARD,
    N_NODES,
    Fleet,
    StormyGrid,
    Weather,
    digests,
    everything_written,
)

SECRET = "she-rated-item-7-with-a-5"
QUESTION = asking(FIRST_BOARD).content
N_ROUNDS = 3
TRIES = 10


def test_our_bytes_come_through_a_record_as_they_are() -> None:
    for content in (b"", b"x", bytes(range(256)) * 50, bytes(SMALL_BYTES), bytes(SMALL_BYTES + 1)):
        assert frame_of(record_of(content)) == content
        for board in (b"", b"board", bytes(SMALL_BYTES)):
            assert frames_of(record_of(content, board)) == (content, board)
            assert frame_of(record_of(content, board)) is None


def test_small_messages_are_one_part_each_and_large_ones_are_cut() -> None:
    kinds = {
        size: type(record_of(bytes(size // 2), bytes(size - size // 2))["fedboard"])
        for size in (2, SMALL_BYTES, SMALL_BYTES + 1)
    }

    assert kinds == {2: ConfigRecord, SMALL_BYTES: ConfigRecord, SMALL_BYTES + 1: ArrayRecord}


def test_small_messages_in_arrays_are_read_as_well() -> None:
    def array(content: bytes) -> Array:
        return Array("uint8", (len(content),), "fedboard.frame", content)

    assert frame_of(RecordDict({"fedboard": ArrayRecord({"frame": array(b"x")})})) == b"x"
    both = ArrayRecord({"frame": array(b"x"), "board": array(b"y")})
    assert frames_of(RecordDict({"fedboard": both})) == (b"x", b"y")


@pytest.mark.parametrize(
    "record",
    [
        RecordDict(),
        RecordDict({"fedboard": MetricRecord({"x": 1.0})}),
        RecordDict({"fedboard": ArrayRecord()}),
        RecordDict({"fedboard": ConfigRecord()}),
        RecordDict({"fedboard": ConfigRecord({"x": b"x"})}),
        RecordDict({"fedboard": ConfigRecord({"frame": "x"})}),
        RecordDict({"fedboard": ConfigRecord({"frame": [b"x"]})}),
        RecordDict({"fedboard": ConfigRecord({"frame": b"x", "another": b"x"})}),
        RecordDict({"fedboard": ConfigRecord({"frame": b"x"}), "board": ConfigRecord({"frame": "x"})}),
        RecordDict({"fedboard": ConfigRecord({"frame": b"x"}), "board": MetricRecord({"x": 1.0})}),
        RecordDict({"board": ConfigRecord({"frame": b"x"})}),
        RecordDict({"fedboard": ArrayRecord({"x": Array("uint8", (1,), "fedboard.frame", b"x")})}),
        RecordDict({"fedboard": ArrayRecord({"frame": Array("uint8", (1,), "numpy.ndarray", b"x")})}),
        RecordDict(
            {
                "fedboard": ArrayRecord(
                    {name: Array("uint8", (1,), "fedboard.frame", b"x") for name in ("frame", "another")}
                )
            }
        ),
    ],
)
def test_a_record_of_something_else_holds_no_message(record: RecordDict) -> None:
    assert frame_of(record) is None
    assert frames_of(record) is None


def asked(grid: StormyGrid) -> Exchange:
    exchange = Exchange(grid)
    exchange.ask(list(grid.get_node_ids()), QUESTION, group="0", seconds=10.0)
    return exchange


def by_node(replies: list[Reply]) -> dict[int, Reply]:
    assert len({reply.node_id for reply in replies}) == len(replies)
    return {reply.node_id: reply for reply in replies}


def test_every_node_is_asked_and_replies_once(tmp_path: Path) -> None:
    grid = Fleet(tmp_path).grid()
    with grid.running():
        exchange = asked(grid)
        assert exchange.waiting_for() == {1, 2, 3, 4}
        replies = by_node(list(exchange.replies()))

        assert set(replies) == {1, 2, 3, 4}
        assert all(reply.content and reply.failure is None for reply in replies.values())
        assert exchange.waiting_for() == set()
        assert list(exchange.replies()) == []


def test_a_reply_that_flower_cannot_read_is_one_bad_reply(tmp_path: Path) -> None:
    def unreadable(nodes: list[int]) -> None:
        if 2 in nodes:
            raise ValueError(SECRET)

    grid = Fleet(tmp_path, weather=Weather(pull_fails=unreadable)).grid()
    with grid.running():
        replies = by_node(list(asked(grid).replies()))

    assert replies[3] == Reply(3, None, Refusal.MALFORMED)
    assert [replies[node].failure for node in (1, 2, 4)] == [None] * 3


@pytest.mark.parametrize("error", [ConnectionError(SECRET), httpx.ConnectError(SECRET), TimeoutError(SECRET)])
def test_a_link_that_is_down_loses_nothing(tmp_path: Path, error: Exception) -> None:
    looks = Counter[str]()

    def down(nodes: list[int]) -> None:
        looks["pull"] += 1
        if looks["pull"] <= 3:
            raise error

    grid = Fleet(tmp_path, weather=Weather(pull_fails=down)).grid()
    with grid.running():
        exchange = asked(grid)
        assert [list(exchange.replies()) for _ in range(3)] == [[], [], []]
        assert len(list(exchange.replies())) == N_NODES


def test_a_superlink_that_fails_for_one_reply_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    request = httpx.Request("POST", "http://127.0.0.1")
    error = httpx.HTTPStatusError(SECRET, request=request, response=httpx.Response(500, request=request))

    def failing(nodes: list[int]) -> None:
        if 2 in nodes:
            raise error

    grid = Fleet(tmp_path, weather=Weather(pull_fails=failing)).grid()
    with grid.running():
        exchange = asked(grid)
        assert {reply.node_id for reply in exchange.replies()} == {1, 2, 4}
        assert exchange.waiting_for() == {3}


@pytest.mark.slow
@pytest.mark.parametrize("error", [ConnectionError(SECRET), httpx.ConnectError(SECRET)])
def test_a_question_that_could_not_be_sent_is_sent_later(tmp_path: Path, error: Exception) -> None:
    pushes = Counter[str]()

    def down() -> None:
        pushes["push"] += 1
        if pushes["push"] in (1, 2):
            raise error

    outcome = Fleet(tmp_path / "stormy", weather=Weather(push_fails=down)).run()
    Fleet(tmp_path / "calm").run()

    assert outcome.refused == {}
    assert digests(tmp_path / "stormy") == digests(tmp_path / "calm")


@pytest.mark.slow
def test_nobody_answers_for_another(tmp_path: Path) -> None:
    """A reply that names the question of another node is not that node's."""

    def stolen(reply: Message) -> Message:
        if reply.metadata.src_node_id == 4:
            reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    outcome = Fleet(tmp_path / "with", weather=Weather(changes=stolen)).run()
    Fleet(tmp_path / "without", n_nodes=3).run()

    assert outcome.refused == {"unknown-node": N_ROUNDS}
    assert digests(tmp_path / "with") == digests(tmp_path / "without")


@pytest.mark.slow
def test_a_node_that_nobody_admitted_is_not_asked(tmp_path: Path) -> None:
    nodes = {f"key-{number}": 100 for number in (0, 1, 2)}

    outcome = Fleet(tmp_path / "with", settings={"nodes": nodes, "expected_nodes": 3}).run()
    Fleet(tmp_path / "without", n_nodes=3).run()

    assert outcome.asked == [N_ROUNDS] * 3 + [0]
    assert outcome.refused == {}
    assert digests(tmp_path / "with") == digests(tmp_path / "without")


def test_the_text_of_an_error_reply_goes_nowhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Without the time limit it would be asked for ever: a node that is not reachable may come back."""

    def failing(question: Question, honest: bytes) -> bytes:
        raise RuntimeError(SECRET)

    outcome = Fleet(tmp_path, tampers={3: failing}, settings={"deadline_seconds": 0.3}).run()

    assert outcome.board.version == N_ROUNDS
    assert set(outcome.refused) == {"unreachable"}
    assert SECRET.encode() not in everything_written(tmp_path)
    printed = capfd.readouterr()
    assert SECRET not in printed.out + printed.err + caplog.text


@pytest.mark.slow
def test_a_record_without_a_message_is_malformed(tmp_path: Path) -> None:
    outcome = Fleet(tmp_path, tampers={3: lambda question, honest: RecordDict()}).run()

    assert outcome.refused == {"malformed": N_ROUNDS * TRIES}
    assert json.dumps(outcome.rounds[0]["refused"]) == '{"malformed": 10}'
