"""Our bytes in Flower's messages, and the nodes of a grid as the round loop asks them."""

from collections.abc import Callable
from typing import Any

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedboard.common.messages.flower_parts import frame_of, frames_of, record_of
from fedboard.common.messages.question import ROUND, STEP
from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.mailbox import Message as Asked
from fedboard.server.fleet.mailbox import Reply
from fedboard.simulations.flower.apps import GridNodes
from tests.simulations.flower.local_grid import LocalGrid

SECRET = "she-rated-item-7-with-a-5"
NAMES = [f"{number:020d}" for number in (1, 2, 3)]


def test_our_bytes_come_through_a_record_as_they_are() -> None:
    for content in (b"", b"x", bytes(range(256)) * 500):
        assert frame_of(record_of(content)) == content
        for board in (b"", b"board"):
            assert frames_of(record_of(content, board)) == (content, board)
            assert frame_of(record_of(content, board)) is None


def array(stype: str = "fedboard.frame") -> Array:
    return Array("uint8", (1,), stype, b"x")


@pytest.mark.parametrize(
    "record",
    [
        RecordDict(),
        RecordDict({"fedboard": MetricRecord({"x": 1.0})}),
        RecordDict({"fedboard": ArrayRecord()}),
        RecordDict({"fedboard": ConfigRecord({"frame": b"x"})}),
        RecordDict({"board": ArrayRecord({"frame": array()})}),
        RecordDict({"fedboard": ArrayRecord({"x": array()})}),
        RecordDict({"fedboard": ArrayRecord({"frame": array("numpy.ndarray")})}),
        RecordDict({"fedboard": ArrayRecord({"frame": array(), "another": array()})}),
    ],
)
def test_a_record_of_something_else_holds_no_message(record: RecordDict) -> None:
    assert frame_of(record) is None
    assert frames_of(record) is None


def replies(answer: Callable[[Message], RecordDict], kind: str = ROUND) -> list[Reply]:
    """What comes back from three nodes of a grid, the third of which answers in this way."""
    app = ClientApp()

    @app.query("round")
    @app.query("step")
    def honest(message: Message, context: Context) -> Message:
        content = frames_of(message.content)
        assert content is not None
        said = record_of(content[0] + (content[1] or b""))
        return Message(answer(message) if context.node_id == 3 else said, reply_to=message)

    grid = LocalGrid(app, 3, {})
    with grid.running():
        nodes = GridNodes(grid, 5)
        nodes.ask(dict.fromkeys(NAMES, Asked(kind, b"mine")), seconds=9.0, largest=100)
        found = nodes.replies(wait=60.0)
        assert nodes.replies(wait=0.0) == []
        nodes.end()
    return found


HONEST = [Reply(name, b"mine") for name in NAMES]


def fails(message: Message) -> RecordDict:
    raise RuntimeError(SECRET)


@pytest.mark.parametrize("kind", [ROUND, STEP])
def test_every_node_is_asked_and_replies_once(kind: str) -> None:
    assert replies(lambda message: record_of(b"mine"), kind) == HONEST


def test_who_is_listed_is_there() -> None:
    assert GridNodes(LocalGrid(ClientApp(), 3, {}), 5).present() == dict.fromkeys(NAMES, 5)


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (fails, Refusal.UNREACHABLE),
        (lambda message: RecordDict(), Refusal.MALFORMED),
        (lambda message: record_of(b"mine", b"board"), Refusal.MALFORMED),
        (lambda message: record_of(bytes(101)), Refusal.TOO_LARGE),
    ],
)
def test_a_bad_reply_is_one_bad_reply_and_its_text_goes_nowhere(
    answer: Callable[[Message], RecordDict], failure: Refusal
) -> None:
    assert replies(answer) == [*HONEST[:2], Reply(NAMES[2], None, failure)]


def test_nobody_answers_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that names the question of another node is not that node's."""
    pull = LocalGrid.pull_messages

    def stolen(self: LocalGrid, ids: Any) -> Any:
        found = list(pull(self, ids))
        for reply in found:
            if reply.metadata.src_node_id == 3:
                reply.metadata.__dict__["_src_node_id"] = 1
        return found

    monkeypatch.setattr(LocalGrid, "pull_messages", stolen)
    assert replies(lambda message: record_of(b"x")) == [
        *HONEST[:2],
        Reply(NAMES[2], None, Refusal.UNKNOWN_NODE),
    ]
