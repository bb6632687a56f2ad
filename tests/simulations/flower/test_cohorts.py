"""Cohorts on disk: a simulated node answers for its own users, and a failure of one is seen."""

from pathlib import Path

import pytest

from fedboard.client.participation.rounds import respond
from fedboard.common.errors import InputError
from fedboard.common.messages.question import Answer, refusal
from fedboard.common.messages.refusals import Refusal
from fedboard.common.messages.signing import QuestionKey
from fedboard.simulations.flower.cohorts import StoredCohort, write_cohorts
from tests.client.asking import ASKER, asking, reply_to
from tests.common.algorithms.conftest import N_USERS, a_prepared_board, a_task, population

QUESTION = asking(a_prepared_board(a_task()), private_noise=False)


@pytest.fixture
def nodes(tmp_path: Path) -> list[StoredCohort]:
    write_cohorts(tmp_path, population(), 3)
    return [StoredCohort(path, ASKER) for path in sorted(tmp_path.iterdir())]


def test_each_node_answers_for_its_own_users(nodes: list[StoredCohort]) -> None:
    said = [reply_to(QUESTION, source=node, gate=node) for node in nodes]

    answers = [Answer.from_bytes(content, limit=1 << 24) for content in said]
    assert [answer.n_users for answer in answers] == [node.n_users for node in nodes] == [13, 13, 14]
    assert [answer.first_row for answer in answers] == [0, 13, 26]


def test_a_node_that_fails_refuses_and_its_users_are_not_taken_for_empty(nodes: list[StoredCohort]) -> None:
    (nodes[1].place / "ratings.npy").write_bytes(b"?")

    assert reply_to(QUESTION, source=nodes[1], gate=nodes[1]) == refusal(Refusal.INTERNAL)


def test_a_simulated_node_answers_the_server_of_its_own_run_alone(nodes: list[StoredCohort]) -> None:
    other = QuestionKey().sign(QUESTION.content, seconds=60)

    assert respond(QUESTION.content, source=nodes[0], gate=nodes[0]) == refusal(Refusal.UNSIGNED)
    assert respond(other, source=nodes[0], gate=nodes[0]) == refusal(Refusal.BAD_SIGNATURE)


@pytest.mark.parametrize("n_cohorts", [0, N_USERS + 1])
def test_there_are_as_many_nodes_as_users_at_most(tmp_path: Path, n_cohorts: int) -> None:
    with pytest.raises(InputError, match=r"nodes must be in 1\.\.40"):
        write_cohorts(tmp_path, population(), n_cohorts)
