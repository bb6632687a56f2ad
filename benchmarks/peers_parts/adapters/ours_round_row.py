"""fedboard's private round: the real engine, ledger and secure noise, from the job's public board on."""

import tempfile
from pathlib import Path
from typing import Any

from harness import Arrays, Job, Told, measured


def load() -> Any:
    import fedboard.common.algorithms.adadpals.algorithm
    import fedboard.server.round
    import fedboard.simulations.engine

    return fedboard


def prepare(_: Any, job: Job) -> Any:
    from fedboard.common.cohort import Cohort

    return Cohort(indptr=job.row_bounds(), items=job.item, ratings=job.rating, n_items=job.n_items)


def fit(_: Any, job: Job, cohort: Any) -> tuple[Arrays, Told]:
    from fedboard.common.privacy.ledger.ledger import Ledger
    from fedboard.common.privacy.releases.noise import SecureNoise
    from fedboard.common.protocols.trusted import Trusted
    from fedboard.server.round import run_round
    from fedboard.simulations.engine import Engine, WorkerPool

    task, board, budget, plan = started(job)
    with (
        tempfile.TemporaryDirectory() as place,
        Ledger.create(Path(place) / "ledger", budget, plan=plan) as ledger,
        WorkerPool(job.threads) as pool,
        Engine(task, cohort, protocol=Trusted(backend=task.backend), pool=pool) as engine,
    ):
        for _number in range(job.spec["epochs"]):
            board = run_round(task, board, runtime=engine, ledger=ledger, noise=SecureNoise()).board
    return {"items": board.arrays["item_factors"]}, {"backend": task.backend}


def started(job: Job) -> Any:
    """The task with its noise, the public board of the job, the budget, and the plan of the ledger."""
    from fedboard.common.algorithms.registry import rebuild_task
    from fedboard.common.board import Board
    from fedboard.common.kernels import choose_backend
    from fedboard.common.privacy.adjacency import Adjacency
    from fedboard.common.privacy.ledger.ledger import Budget

    spec, board = job.spec, Board.load(job.folder / "board.bin")
    backend = choose_backend(spec["rank"], spec["n_ratings"] * 2 * spec["epochs"])
    task: Any = rebuild_task(board, backend=backend)
    budget = Budget(epsilon=spec["epsilon"], delta=spec["delta"], adjacency=Adjacency.ADD_REMOVE)
    return task, board, budget, dict(task.settings.shared.noise_multipliers)


if __name__ == "__main__":
    measured("fedboard", load, prepare, fit)
