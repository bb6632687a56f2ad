"""The engine: the same board for any number of workers, and no half release when one dies."""

import os
import pickle
import signal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError, WorkerDiedError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.tasks.adadpals.algorithm import AdaDpals
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.server.round import run_round
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.shared import SharedArray, SharedArrays
from tests.common.tasks.conftest import a_prepared_board, a_task, population, presence

pytestmark = pytest.mark.slow

N_USERS = 5000  # more than one block of users


def boards(task: AdaDpals, cohort: Cohort, path: Path, *, workers: int, form: str = "factored") -> list[str]:
    """Digests of all boards of a run."""
    budget = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    board, found = task.first_board(a_prepared_board(task).catalogue), []
    with (
        Ledger.create(
            path / f"ledger-{workers}-{form}", budget, plan=task.settings.shared.noise_multipliers
        ) as ledger,
        WorkerPool(workers) as pool,
        Engine(task, cohort, protocol=Trusted(form=form), pool=pool) as engine,
    ):
        while task.requests(board):
            board = run_round(task, board, runtime=engine, ledger=ledger, noise=SeededNoise(1)).board
            found.append(board.digest)
    return found


@pytest.mark.parametrize("feedback", list(Feedback))
def test_the_boards_are_the_same_for_any_number_of_workers_and_either_wire_form(
    tmp_path: Path, feedback: Feedback
) -> None:
    cohort = population(n_users=N_USERS)
    cohort = cohort if feedback is Feedback.EXPLICIT else presence(cohort)
    task = a_task(feedback=feedback)

    found = [boards(task, cohort, tmp_path, workers=workers) for workers in (1, 2, 4)]
    dense = boards(task, cohort, tmp_path, workers=1, form="dense")

    assert len(found[0]) == 3
    assert found[0] == found[1] == found[2] == dense


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


@pytest.mark.parametrize(("phase", "booked"), [("clients", 0), ("items", 2)])
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


def test_a_handle_that_was_pickled_shows_the_same_memory() -> None:
    owner = SharedArrays()
    shared = owner.copy_of(np.arange(5.0))

    again: SharedArray = pickle.loads(pickle.dumps(shared))
    again.array[2] = -1.0

    assert shared.array.tolist() == [0.0, 1.0, -1.0, 3.0, 4.0]
    owner.close()


def test_shared_boards_are_not_left_behind(tmp_path: Path) -> None:
    task = a_task()
    with WorkerPool(1) as pool:
        engine = Engine(task, population(), protocol=Trusted(), pool=pool)
        engine.gather(a_prepared_board(task), task.requests(a_prepared_board(task)))
        scratch = Path(engine._scratch.name)
        assert list(scratch.iterdir())
        engine.close()
    assert not scratch.exists()
