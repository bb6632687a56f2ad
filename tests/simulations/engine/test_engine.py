"""The engine: the same board for any number of workers, and no half release when one dies."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import BitArray, FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FixedSizeCohort,
    Participation,
    PoissonParticipation,
    round_name,
)
from fedboard.common.contribution_bounding.personal import scale_contribution
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.errors import InputError, PrivacyError, WorkerDiedError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, kept_rows, whole_sums
from fedboard.common.protocols.trusted import Trusted, factored_bytes
from fedboard.server.round import run_round
from fedboard.simulations.data.stream import mapped_rows, write_rows
from fedboard.simulations.engine import Engine, StreamLayout, WorkerPool
from tests.common.algorithms.conftest import a_prepared_board, a_task, population, presence

pytestmark = pytest.mark.slow

N_USERS = 5000  # more than one block of users


def boards(
    task: AdaDpals, cohort: Cohort, path: Path, *, workers: int, layout: StreamLayout | None = None
) -> list[str]:
    """Digests of all boards of a run."""
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    board, found = task.first_board(a_prepared_board(task).catalogue), []
    with (
        Ledger.create(
            path / f"ledger-{workers}-{layout}", budget, plan=task.settings.shared.noise_multipliers
        ) as ledger,
        WorkerPool(workers) as pool,
        Engine(task, cohort, protocol=Trusted(), pool=pool, layout=layout) as engine,
    ):
        while task.requests(board):
            board = run_round(task, board, runtime=engine, ledger=ledger, noise=SeededNoise(1)).board
            found.append(board.digest)
    return found


@pytest.mark.parametrize("feedback", list(Feedback))
def test_the_boards_are_the_same_for_any_number_of_workers_and_items_at_once(
    tmp_path: Path, feedback: Feedback
) -> None:
    cohort = population(n_users=N_USERS)
    cohort = cohort if feedback is Feedback.EXPLICIT else presence(cohort)
    task = a_task(feedback=feedback)

    found = [boards(task, cohort, tmp_path, workers=workers) for workers in (1, 2, 4)]
    in_parts = [
        boards(task, cohort, tmp_path, workers=workers, layout=StreamLayout(most_bytes=most))
        for workers, most in ((1, 1), (2, 2000))
    ]

    assert len(found[0]) == 3
    assert found[0] == found[1] == found[2] == in_parts[0] == in_parts[1]


def test_a_killed_worker_is_noticed_and_named() -> None:
    with (
        WorkerPool(2) as pool,
        pytest.raises(WorkerDiedError, match="signal 9; nothing of this round was released"),
    ):
        pool.run([partial(signal.raise_signal, signal.SIGKILL), partial(pow, 2, 2)])


def test_the_error_of_a_job_is_raised_as_it_was() -> None:
    with WorkerPool(2) as pool, pytest.raises(InputError, match="no board can be read"):
        pool.run([partial(Board.load, Path("nowhere"))])


class KillsAWorkerAfter:
    """Progress listener that ends a worker as soon as a phase has begun."""

    def __init__(self, phase: str, pool: WorkerPool) -> None:
        self.phase, self.pool = phase, pool

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase == self.phase:
            for pid in self.pool.process_ids:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("phase", "booked"), [("users", 0), ("items", 2)])
def test_a_worker_killed_in_a_round_leaves_no_board(tmp_path: Path, phase: str, booked: int) -> None:
    task = a_task()
    board, budget = a_prepared_board(task), Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    cohort = population(n_users=20000)
    with (
        Ledger.create(tmp_path / "ledger", budget) as ledger,
        WorkerPool(2) as pool,
        Engine(
            task, cohort, protocol=Trusted(), pool=pool, on_progress=KillsAWorkerAfter(phase, pool)
        ) as engine,
    ):
        with pytest.raises(WorkerDiedError):
            run_round(task, board, runtime=engine, ledger=ledger, noise=SeededNoise(0))
        assert len(ledger.events()) == booked  # before the sums are complete nothing is even paid for


def test_rows_that_are_mapped_are_those_that_were_written_and_who_writes_to_them_changes_no_file(
    tmp_path: Path,
) -> None:
    rows = population().rows(3, 20)
    write_rows(tmp_path / "rows", rows)

    found = mapped_rows(tmp_path / "rows")
    found.ratings[:] = 0

    again = mapped_rows(tmp_path / "rows")
    for name in ("indptr", "items", "ratings", "keys"):
        assert getattr(again, name).tolist() == getattr(rows, name).tolist()
    assert (again.n_items, again.first_row, again.features) == (rows.n_items, 3, None)


def test_what_workers_share_is_its_owners_alone_and_not_left_behind(tmp_path: Path) -> None:
    task = a_task()
    with WorkerPool(2) as pool, Engine(task, population(), protocol=Trusted(), pool=pool) as engine:
        folder = Path(engine._scratch.name)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert (folder / "rows" / "ratings.npy").exists()
    assert not folder.exists()


KILLED = """
import os, signal
from fedboard.common.protocols.trusted import Trusted
from fedboard.simulations.engine import Engine, WorkerPool
from tests.common.algorithms.conftest import a_task, population

with WorkerPool(2) as pool:
    engine = Engine(a_task(), population(), protocol=Trusted(), pool=pool)
    assert engine._stream.rows.n_ratings
    print(engine._scratch.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere rows are in a temporary folder")
def test_no_ratings_are_left_behind_by_a_run_that_is_killed() -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True
    )

    left = Path(killed.stdout.strip())
    assert killed.returncode == -signal.SIGKILL
    assert sorted(path.name for path in left.rglob("*") if path.is_file()) == ["numbers.npy"]
    shutil.rmtree(left)


def test_shared_boards_are_not_left_behind(tmp_path: Path) -> None:
    task = a_task()
    with WorkerPool(1) as pool:
        engine = Engine(task, population(), protocol=Trusted(), pool=pool)
        engine.gather(a_prepared_board(task), task.requests(a_prepared_board(task)))
        scratch = Path(engine._scratch.name)
        assert list(scratch.iterdir())
        engine.close()
    assert not scratch.exists()


class LevelsOf:
    """The levels of a cohort's users, by their keys."""

    def __init__(self, cohort: Cohort, scales: FloatArray) -> None:
        self.levels = dict(zip(cohort.keys.tolist(), scales.tolist(), strict=True))

    def __call__(self, keys: BitArray) -> FloatArray:
        return np.array([self.levels[key] for key in keys.tolist()])


def attendance_of(participation: Participation, board: Board, seed: int = 0) -> Attendance:
    return Attendance(participation=participation, name=round_name(board.version), noise=SeededNoise(seed))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("feedback", list(Feedback))
def test_who_does_not_take_part_adds_nothing_to_any_sum(feedback: Feedback, workers: int) -> None:
    """Round after round, and personal levels are kept."""
    cohort = population(n_users=N_USERS)
    cohort = cohort if feedback is Feedback.EXPLICIT else presence(cohort)
    task = a_task(feedback=feedback, weights=WeightScheme.UNIFORM, adjacency=Adjacency.REPLACE)
    scales = np.where(np.arange(N_USERS) % 3 == 0, 0.25, 1.0)
    boards = [task.first_board(a_prepared_board(task).catalogue), *[a_prepared_board(task)] * 2]
    with (
        WorkerPool(workers) as pool,
        Engine(task, cohort, protocol=Trusted(), pool=pool, scales_of=LevelsOf(cohort, scales)) as engine,
    ):
        for seed, board in enumerate(boards):
            attendance = attendance_of(FixedSizeCohort(1500), board, seed)
            requests = attendance.mark(task.requests(board))
            gathered = engine.gather(board, requests, attendance)

            present = FixedSizeCohort(1500).rows(N_USERS, SeededNoise(seed), attendance.name).rows(0, N_USERS)
            rows = scale_contribution(task.contribute(cohort, board, requests), requests, scales)
            expected = whole_sums(FactoredSums.of(kept_rows(rows, present)), requests)
            found = whole_sums(gathered.sums, requests)
            for name in expected:
                np.testing.assert_array_equal(found[name], expected[name])
            assert gathered.sums.rejected_rows == 0
            assert gathered.traffic is not None
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
            task,
            population(),
            protocol=Trusted(),
            pool=pool,
            scales_of=LevelsOf(population(), np.full(population().n_users, 0.5)),
        ) as engine,
        pytest.raises(PrivacyError, match="no personal levels"),
    ):
        engine.gather(board, requests, attendance)
