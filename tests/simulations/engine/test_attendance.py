"""The engine with users who do not take part, and with users who give less: sums of what the others give."""

from pathlib import Path

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.errors import PrivacyError
from fedboard.common.per_user.participation import Attendance, Participation, round_name
from fedboard.common.per_user.personal import scale_contribution
from fedboard.common.per_user.sampling import FixedSizeCohort, PoissonParticipation
from fedboard.common.per_user.weights import WeightScheme
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, kept_rows, whole_sums
from fedboard.common.protocols.trusted.protocol import Trusted, factored_bytes
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.server.round import run_round
from fedboard.simulations.engine import Engine, WorkerPool
from tests.common.tasks.conftest import a_prepared_board, a_task, population, presence

N_USERS = 5000  # more than one block of users


def attendance_of(participation: Participation, board: Board, seed: int = 0) -> Attendance:
    return Attendance(participation=participation, name=round_name(board.version), noise=SeededNoise(seed))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("form", ["factored", "dense"])
@pytest.mark.parametrize("feedback", list(Feedback))
def test_who_does_not_take_part_adds_nothing_to_any_sum(feedback: Feedback, form: str, workers: int) -> None:
    """Round after round: what other users left in the shared rows is gone, and personal levels are kept."""
    cohort = population(n_users=N_USERS)
    cohort = cohort if feedback is Feedback.EXPLICIT else presence(cohort)
    task = a_task(feedback=feedback, weights=WeightScheme.UNIFORM, adjacency=Adjacency.REPLACE)
    scales = np.where(np.arange(N_USERS) % 3 == 0, 0.25, 1.0)
    boards = [task.first_board(a_prepared_board(task).catalogue), *[a_prepared_board(task)] * 2]
    with (
        WorkerPool(workers) as pool,
        Engine(task, cohort, protocol=Trusted(form=form), pool=pool, scales=scales) as engine,
    ):
        for seed, board in enumerate(boards):
            attendance = attendance_of(FixedSizeCohort(1500), board, seed)
            requests = attendance.mark(task.requests(board))
            gathered = engine.gather(board, requests, attendance)

            present = FixedSizeCohort(1500).draw(N_USERS, SeededNoise(seed), attendance.name)
            rows = scale_contribution(task.contribute(cohort, board, requests), requests, scales)
            expected = whole_sums(FactoredSums.of(kept_rows(rows, present)), requests)
            found = whole_sums(gathered.sums, requests)
            for name in expected:
                np.testing.assert_array_equal(found[name], expected[name])
            assert gathered.sums.rejected_rows == 0
            if gathered.traffic is not None:
                assert gathered.traffic.up["mean"] == factored_bytes(rows)[present].mean()


def test_a_round_in_which_nobody_takes_part_is_a_round_of_noise(tmp_path: Path) -> None:
    task = a_task()
    board, participation = a_prepared_board(task), PoissonParticipation(1e-12)
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with (
        Ledger.create(tmp_path / "ledger", budget) as ledger,
        WorkerPool(1) as pool,
        Engine(task, population(), protocol=Trusted(), pool=pool) as engine,
    ):
        attendance = attendance_of(participation, board)
        gathered = engine.gather(board, attendance.mark(task.requests(board)), attendance)
        assert gathered.traffic is None
        for sums in whole_sums(gathered.sums, task.requests(board)).values():
            assert not sums.any()
        result = run_round(
            task, board, runtime=engine, ledger=ledger, noise=SeededNoise(0), participation=participation
        )
        assert np.isfinite(result.board.arrays["item_factors"]).all()


def test_the_engine_asks_nobody_when_requests_claim_a_sampling_that_was_not_done() -> None:
    task = a_task()
    board = a_prepared_board(task)
    requests = attendance_of(PoissonParticipation(0.1), board).mark(task.requests(board))
    with (
        WorkerPool(1) as pool,
        Engine(task, population(), protocol=Trusted(), pool=pool) as engine,
        pytest.raises(PrivacyError, match="nobody was drawn"),
    ):
        engine.gather(board, requests)


def test_personal_levels_do_not_go_with_sampling() -> None:
    task = a_task()
    board = a_prepared_board(task)
    attendance = attendance_of(PoissonParticipation(0.9), board)
    requests = attendance.mark(task.requests(board))
    with (
        WorkerPool(1) as pool,
        Engine(
            task, population(), protocol=Trusted(), pool=pool, scales=np.full(population().n_users, 0.5)
        ) as engine,
        pytest.raises(PrivacyError, match="no personal levels"),
    ):
        engine.gather(board, requests, attendance)
