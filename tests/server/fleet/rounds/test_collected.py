"""Whatever bytes a node sends: a code, or rows within their bounds; the sums of the others stay what they are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.board import Board
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FixedSizeCohort,
    FullParticipation,
    Participation,
    PoissonParticipation,
)
from fedboard.common.contribution_bounding.personal import squared_norms
from fedboard.common.messages.question import Answer
from fedboard.common.messages.refusals import RefusedError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, kept_rows, whole_sums
from fedboard.server.fleet.rounds.trusted_rounds import Admission
from tests.client.asking import KEY, asking, reply_to, sealed
from tests.common.algorithms.conftest import N_USERS, a_residual_task, population, residual_boards
from tests.server.fleet.local_fleet import FIRST_BOARD, TASK, Phone, phone

RESIDUAL = a_residual_task()
BOARDS: list[tuple[Any, Board]] = [
    (TASK, FIRST_BOARD),
    *((RESIDUAL, board) for board in residual_boards(RESIDUAL)[:-1]),
]
QUESTIONS = [asking(board) for _, board in BOARDS]
HONEST = [[reply_to(q, source=phone(k), gate=phone(k)) for k in range(4)] for q in QUESTIONS]


def attendance(participation: Participation) -> Attendance:
    drawn = Attendance(participation=participation, name="round-0", noise=SeededNoise(0))
    counted = isinstance(participation, FixedSizeCohort)  # is accounted where the number of users is public
    requests = TASK.requests(FIRST_BOARD)
    drawn.mark(
        replace(r, release=replace(r.release, adjacency=Adjacency.REPLACE)) if counted else r
        for r in requests
    )
    return drawn


def taken_in(
    asked: int, contents: list[bytes], participation: Participation | None = None
) -> tuple[Admission, int]:
    """All that is admitted of these contents, each sealed by its node, and how much was not."""
    question = QUESTIONS[asked]
    task, board = BOARDS[asked]
    requests = task.requests(board)
    drawn = None if participation is None else attendance(participation)
    admission, refused = Admission(question=question, requests=requests, key=KEY, attendance=drawn), 0
    for number, content in enumerate(contents):
        try:
            admission.take(f"node-{number}", sealed(content, question), max_users=20)
        except RefusedError:
            refused += 1
    return admission, refused


def sums_of(asked: int, intake: Admission) -> dict[str, np.ndarray]:
    task, board = BOARDS[asked]
    return whole_sums(intake.sums(), task.requests(board))


FLIPS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(
    asked=st.integers(0, len(BOARDS) - 1),
    flips=FLIPS,
    participation=st.sampled_from(
        [None, FullParticipation(), FixedSizeCohort(20), PoissonParticipation(0.5)]
    ),
)
def test_flipped_bytes_move_the_sums_by_what_one_node_may_give_and_no_more(
    asked: int, flips: list[tuple[int, int]], participation: Participation | None
) -> None:
    """The flipped answer is refused, or its rows that break a bound are dropped; never anything else."""
    content = bytearray(HONEST[asked][3])
    for place, mask in flips:
        content[place % len(content)] ^= mask

    intake, refused = taken_in(asked, [*HONEST[asked][:3], bytes(content)], participation)
    sums = sums_of(asked, intake)

    assert intake.traffic(0) is not None
    if participation is not None and not isinstance(participation, FullParticipation):
        return  # others take part as well when there are more users
    others, _ = taken_in(asked, HONEST[asked][:3])
    honest = sums_of(asked, others)
    if refused:
        for name, values in honest.items():
            np.testing.assert_array_equal(sums[name], values)
        return
    task, board = BOARDS[asked]
    n_rows = Answer.from_bytes(bytes(content), limit=1 << 24).n_users
    for request in task.requests(board):
        moved = np.abs((sums[request.name] - honest[request.name]).astype(object)).max(initial=0)
        assert moved <= n_rows * request.release.l2_bound


@pytest.mark.parametrize("asked", range(len(BOARDS)))
@pytest.mark.parametrize("participation", [None, FullParticipation()])
def test_the_order_in_which_answers_come_does_not_matter(
    asked: int, participation: Participation | None
) -> None:
    task, board = BOARDS[asked]
    whole = task.contribute(population(), board, task.requests(board))
    expected = whole_sums(FactoredSums.of(whole), task.requests(board))

    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        intake, _ = taken_in(asked, [HONEST[asked][k] for k in order], participation)
        for name, values in expected.items():
            np.testing.assert_array_equal(sums_of(asked, intake)[name], values)


@pytest.mark.parametrize("participation", [PoissonParticipation(0.5), FixedSizeCohort(7)])
def test_those_who_take_part_are_drawn_by_number_whatever_the_order(participation: Participation) -> None:
    present = attendance(participation).draw(N_USERS)
    assert present is not None
    requests = TASK.requests(FIRST_BOARD)
    rows = kept_rows(TASK.contribute(population(), FIRST_BOARD, requests), present)
    expected = whole_sums(FactoredSums.of(rows), requests)

    for order in ([0, 1, 2, 3], [2, 3, 0, 1]):
        intake, _ = taken_in(0, [HONEST[0][k] for k in order], participation)
        for name, values in expected.items():
            np.testing.assert_array_equal(sums_of(0, intake)[name], values)


def test_one_user_moves_a_sum_by_at_most_the_bound_that_is_booked() -> None:
    """And a bound that is a hundredth smaller would not hold: the numbers above are not idle."""
    tight = 0.0
    for task, board in BOARDS:
        requests = task.requests(board)
        rows = task.contribute(population(), board, requests)
        for request in requests:
            ratio = float(squared_norms(rows, request).max()) ** 0.5 / request.release.l2_bound
            assert ratio <= 1.0
            tight = max(tight, ratio)
    assert tight > 0.99


def test_a_node_that_hosts_nobody_counts_and_adds_nothing() -> None:
    empty = Phone(population().rows(0, 0))
    content = reply_to(QUESTIONS[0], source=empty, gate=empty)

    intake, refused = taken_in(0, [*HONEST[0], content])

    assert (sum(intake.users.values()), refused) == (N_USERS, 0)
