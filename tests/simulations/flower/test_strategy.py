"""The strategy for a ServerApp of one's own keeps what every run promises, whatever nodes send."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp

import fedboard
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.flower_parts import SERVER, frame_of, record_of
from fedboard.common.messages.refusals import Refusal
from fedboard.common.messages.signing import QuestionKey
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.flower import BillboardStrategy, answer
from fedboard.simulations.simulate import simulate
from tests.simulations.flower.local_grid import LocalGrid
from tests.simulations.flower.own_apps import NODES, a_strategy, app_of, everybody, started
from tests.simulations.flower.small_runs import N_USERS, a_config

EVERYBODY = everybody()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> BillboardStrategy:
    strategy = a_strategy(tmp_path_factory.mktemp("finished"))
    started(strategy, app_of(EVERYBODY))
    return strategy


def test_its_board_is_the_engine_s_and_its_certificate_verifies(
    finished: BillboardStrategy, tmp_path: Path
) -> None:
    config = a_config("residual", split={"validation": 0.0, "test": 0.0})

    ran = simulate(config, tmp_path / "engine")

    assert finished.num_rounds == 0
    assert finished.board.digest == ran.board.digest
    assert fedboard.verify(finished.folder).holds
    assert "its operator's word" in str(finished.board.certificate)


def test_what_ended_early_goes_on_to_the_same_board(finished: BillboardStrategy, tmp_path: Path) -> None:
    result = started(a_strategy(tmp_path), app_of(EVERYBODY), num_rounds=2)
    again = a_strategy(tmp_path)
    started(again, app_of(EVERYBODY))

    assert sorted(result.train_metrics_clientapp) == [1, 2]
    assert again.board.digest == finished.board.digest
    assert fedboard.verify(tmp_path).holds


def test_a_node_that_fails_is_left_out_and_too_few_release_nothing(tmp_path: Path) -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])  # type: ignore[arg-type]
        if number == 0:
            raise OSError("a secret")
        # One user more than a node may host, on the second node.
        return answer(message, context, EVERYBODY[: N_USERS // NODES + (number == 1)])

    with pytest.raises(
        TooFewAnswersError, match=r"1 nodes answered round 0 and the quorum is 2.*unreachable 1"
    ):
        started(a_strategy(tmp_path, quorum=2), app)

    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        assert not list(ledger.events())
    strategy = a_strategy(tmp_path / "one", quorum=1)
    told = started(strategy, app, num_rounds=1).train_metrics_clientapp[1]
    assert told["nodes-answered"] == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"quorum": 4}, r"quorum must be in \[1, 3\]"),
        ({"nodes": 0}, "nodes"),
        ({"users_per_node": 0}, "users_per_node"),
        ({"epsilon": 0.0}, "privacy.epsilon"),
        ({"algorithm": "residul"}, "residual"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=sentence):
        a_strategy(tmp_path / "run", **changes)

    assert not (tmp_path / "run").exists()


def reply_to(message: Message, people: Any, context: Context) -> bytes:
    sent = answer(message, context, people)
    assert not sent.has_error()
    content = frame_of(sent.content)
    assert content is not None
    return content


def told_to(people: Any, strategy: BillboardStrategy) -> Any:
    """One round over two nodes, the first of which holds these people."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own = people if context.node_config["partition-id"] == 0 else EVERYBODY[:5]
        return answer(message, context, own)

    return started(strategy, app, nodes=2, num_rounds=1)


@pytest.mark.parametrize("bad", [math.nan, 99.0, -1.0])
def test_a_rating_that_cannot_be_used_is_told_to_nobody_and_costs_nobody_else(
    bad: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [{"1": 5.0, "2": bad}, *EVERYBODY[6:10]]
    without = [{}, *EVERYBODY[6:10]]
    with caplog.at_level(logging.ERROR, logger="fedboard"):
        one, other = a_strategy(tmp_path / "a", nodes=2), a_strategy(tmp_path / "b", nodes=2)
        told_to(broken, one)
        told_to(without, other)

    assert one.board.digest == other.board.digest
    assert "1 people of this node have ratings off the public range" in caplog.text
    assert str(bad) not in caplog.text


def test_a_node_answers_the_server_that_asked_first_and_no_other(tmp_path: Path) -> None:
    replies: list[bytes] = []
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        sent = answer(message, context, EVERYBODY[:5])
        forged = message.content
        forged[SERVER] = ConfigRecord({"key": QuestionKey().public.hex})
        question = frame_of(message.content)
        assert question is not None
        other = record_of(QuestionKey().sign(question[80:], seconds=60))  # what follows the envelope
        other[SERVER] = forged[SERVER]
        content = frame_of(answer(Message(other, reply_to=message), context, EVERYBODY[:5]).content)
        assert content is not None
        replies.append(content)
        return sent

    started(a_strategy(tmp_path, nodes=1), app, nodes=1, num_rounds=1)

    assert len(replies) == 1
    assert Refusal.BAD_SIGNATURE.value.encode() in replies[0]


def test_what_is_no_question_is_answered_by_a_code(tmp_path: Path) -> None:
    grid = LocalGrid(app_of(EVERYBODY), 1, {})
    with grid.running():
        empty, garbage = (
            Message(record_of(content), 1, "train", ttl=60.0, group_id="1") for content in (b"", b"x" * 200)
        )
        garbage.content[SERVER] = ConfigRecord({"key": "not a key"})
        replies = list(grid.pull_messages(grid.push_messages([empty, garbage])))

    contents = [frame_of(reply.content) for reply in replies if not reply.has_error()]
    assert len(contents) == 2
    assert all(content is not None and Refusal.MALFORMED.value.encode() in content for content in contents)


def test_people_that_are_no_people_give_nothing_and_no_text(tmp_path: Path) -> None:
    one, other = a_strategy(tmp_path / "a", nodes=2), a_strategy(tmp_path / "b", nodes=2)
    told_to([{"1": "five stars"}, None], one)
    told_to([{}, {}], other)

    assert one.board.digest == other.board.digest
