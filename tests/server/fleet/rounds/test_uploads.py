"""A reply of which parts are missing is set aside and taken when it is complete; nobody waits for it. One that is
too large is not fetched to its end.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import http_grid

from fedboard.common.rounds.flower_parts import frame_of, record_of
from fedboard.common.rounds.question import ROUND
from fedboard.common.wire.refusals import Refusal
from fedboard.server.fleet.rounds.exchange import Exchange, Reply
from fedboard.server.fleet.rounds.uploads import limit_look, set_unfinished_aside, take_unfinished


@pytest.fixture(autouse=True)
def server_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made by somebody."""
    monkeypatch.setattr(TaskIdentity, "_run_id", 1)
    monkeypatch.setattr(TaskIdentity, "_node_id", 0)
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)


def replied(content: bytes, *, node: int = 7) -> Message:
    question = Message(record_of(b"question"), node, ROUND)
    question.metadata.__dict__["_message_id"] = "question" if node == 7 else f"question-{node}"
    return Message(record_of(content), reply_to=question)


@pytest.fixture
def reply() -> Message:
    return replied(b"answer")


@pytest.fixture
def pull_objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, bytes]]]:
    """What Flower's grid calls, replaced for the time of a test."""
    monkeypatch.setattr(http_grid, "pull_objects", http_grid.pull_objects)
    set_unfinished_aside()
    take_unfinished()
    yield http_grid.pull_objects
    take_unfinished()
    limit_look(None)


def test_a_reply_whose_sender_is_away_takes_no_time_and_is_there_once_it_is_complete(
    reply: Message, pull_objects: Callable[..., dict[str, bytes]]
) -> None:
    objects = {name: thing.deflate() for name, thing in get_all_nested_objects(reply).items()}
    parts = [tree.object_id for tree in iterate_object_tree(get_object_tree(reply))]
    there = dict(list(objects.items())[:1])
    asked = Counter[str]()

    def pull(name: str) -> bytes:
        asked[name] += 1
        assert asked[name] <= 3, "Flower would wait for two hours, and so does this"
        if name not in there:
            raise ObjectUnavailableError(name)
        return there[name]

    with pytest.raises(ObjectPullError):
        pull_objects(parts, pull)
    (upload,) = take_unfinished()
    assert upload.message() is None
    assert max(asked.values()) <= 2  # once in each look

    there.update(objects)
    message = upload.message()

    assert message is not None
    assert frame_of(message.content) == b"answer"
    assert message.metadata.reply_to_message_id == "question"


def test_a_complete_reply_is_not_set_aside(
    reply: Message, pull_objects: Callable[..., dict[str, bytes]]
) -> None:
    objects = {name: thing.deflate() for name, thing in get_all_nested_objects(reply).items()}

    assert pull_objects(list(objects), objects.__getitem__) == objects
    assert take_unfinished() == []


class Link:
    """A SuperLink that holds these replies, and counts what is fetched; Flower's own grid asks it."""

    def __init__(self, replies: list[Message]) -> None:
        self.objects: dict[str, bytes] = {}
        self.messages, self.trees, self.fetched = [], [], 0
        self.missing: set[str] = set()
        for reply in replies:
            reply.metadata.__dict__["_message_id"] = reply.object_id
            self.objects |= {name: thing.deflate() for name, thing in get_all_nested_objects(reply).items()}
            self.messages.append(message_to_proto(remove_content_from_message(reply)))
            self.trees.append(get_object_tree(reply))

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:  # noqa: N802
        messages, self.messages = self.messages, []
        return PullAppMessagesResponse(messages_list=messages, message_object_trees=self.trees)

    def PullObject(self, request: PullObjectRequest) -> PullObjectResponse:  # noqa: N802
        if request.object_id in self.missing:
            return PullObjectResponse(object_found=True, object_available=False)
        content = self.objects[request.object_id]
        self.fetched += len(content)
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request: Any) -> None: ...  # noqa: N802

    def exchange(self, *, largest: int | None) -> Exchange:
        """That has asked, and waits for the replies."""
        grid = http_grid.HttpGrid(token="token")
        grid.__dict__.update(_client=self, _run=SimpleNamespace(run_id=1))
        exchange = Exchange(grid, largest=largest)
        for message in self.messages:
            metadata = message.metadata
            exchange._waiting[metadata.reply_to_message_id] = (metadata.src_node_id, 0.0)
        return exchange


MEGABYTES = 1_000_000
PART = 5 * 1024 * 1024
"""In which Flower cuts a reply."""


@pytest.mark.slow
@pytest.mark.usefixtures("pull_objects")
def test_a_reply_that_is_too_large_is_not_fetched_to_its_end_and_harms_no_other() -> None:
    hostile, honest = np.random.default_rng(0).bytes(60 * MEGABYTES), b"answer" * 1000

    def fetched(largest: int | None) -> tuple[list[Reply], int]:
        link = Link([replied(hostile), replied(honest, node=8)])
        exchange = link.exchange(largest=largest)
        return [*exchange.replies(), *exchange.replies()], link.fetched

    replies, n_bytes = fetched(largest=len(honest))
    assert replies == [Reply(8, honest, heard=True), Reply(7, None, Refusal.TOO_LARGE)]
    assert n_bytes < 2 * 2 * PART + 2 * len(honest)  # two looks at it, with two threads

    replies, n_bytes = fetched(largest=None)  # what it is without a limit
    assert {reply.node_id: reply.content for reply in replies} == {7: hostile, 8: honest}
    assert n_bytes > len(hostile)


@pytest.mark.usefixtures("pull_objects")
def test_a_reply_that_names_the_same_part_again_and_again_is_not_put_together() -> None:
    link = Link([replied(bytes(60 * MEGABYTES))])  # parts of zeros are one part, named twelve times

    exchange = link.exchange(largest=20 * MEGABYTES)
    replies = [*exchange.replies(), *exchange.replies()]

    assert replies == [Reply(7, None, Refusal.TOO_LARGE)]
    assert link.fetched < 5 * PART


@pytest.mark.usefixtures("pull_objects")
def test_a_reply_of_the_largest_size_is_taken() -> None:
    for size in (0, 1000, 12 * MEGABYTES):
        link = Link([replied(bytes(size))])
        assert list(link.exchange(largest=size).replies()) == [Reply(7, bytes(size), heard=True)]


@pytest.mark.usefixtures("pull_objects")
def test_replies_that_are_too_much_together_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedboard.server.fleet.rounds.uploads._TOGETHER_BYTES", 1_000_000)
    contents = {node: bytes([node]) * 400_000 for node in range(1, 7)}
    link = Link([replied(content, node=node) for node, content in contents.items()])
    exchange = link.exchange(largest=400_000)

    first = list(exchange.replies())
    rest = list(exchange.replies())

    assert len(first) == 2
    assert {reply.node_id: reply.content for reply in first + rest} == contents


@pytest.mark.usefixtures("pull_objects")
def test_a_reply_that_never_becomes_complete_costs_next_to_nothing() -> None:
    link = Link([replied(np.random.default_rng(0).bytes(40 * MEGABYTES))])
    link.missing = {max(link.objects, key=lambda name: len(link.objects[name]))}
    exchange = link.exchange(largest=50 * MEGABYTES)
    for _ in range(2):
        assert list(exchange.replies()) == []
    before = link.fetched

    for _ in range(10):
        assert list(exchange.replies()) == []

    assert link.fetched - before <= 10 * PART * 2  # one part by the other thread, at most


@pytest.mark.usefixtures("pull_objects")
def test_a_part_that_nobody_can_read_is_one_bad_reply() -> None:
    link = Link([replied(b"answer", node=8), replied(b"another")])
    for part in iterate_object_tree(link.trees[1]):
        link.objects[part.object_id] = b"no part of anything"
    exchange = link.exchange(largest=1000)

    replies = [*exchange.replies(), *exchange.replies()]

    assert replies == [Reply(8, b"answer", heard=True), Reply(7, None, Refusal.MALFORMED)]
