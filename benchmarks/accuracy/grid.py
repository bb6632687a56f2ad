"""What the integer grid costs in accuracy: the same run with exact integers and with real numbers.

usage: python benchmarks/accuracy/grid.py [--data PATH|synthetic] [--epsilon 1,5,20] [--json FILE]

Both runs draw the same noise. The second never rounds a vector, a weight or a label, sums in floating point
and adds unrounded noise, as a textbook would: no guarantee, only a yardstick.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.kernels import choose_backend
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.tasks.adadpals.algorithm import AdaDpals
from fedboard.common.tasks.shared.preparation import capped_counts
from fedboard.server.round import run_round
from fedboard.server.runtime import item_blocks
from fedboard.simulations.config import parse_config
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.judging.evaluation import judge_board
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.calibrated import build_task


@dataclass(frozen=True)
class RealNumbers:
    """Sums of one round in floating point, with the noise that the integer run draws."""

    task: AdaDpals
    board: Board
    cohort: Cohort
    noise: SeededNoise
    requests: Sequence[Request]
    noise_ratio: ClassVar[float] = 1.0

    def array(self, name: str) -> np.ndarray:
        release = next(r.release for r in self.requests if r.name == name)
        draws = self.noise.stream(name).normal(0, release.rows * release.width)
        noise = draws.reshape(release.rows, release.width) * release.column_stddev() * release.grid_step
        return self._sum(name) + noise

    def map_items(self, names: tuple[str, ...], solver: object, *, width: int) -> np.ndarray:
        whole = {name: self.array(name) for name in names}
        blocks = item_blocks([r for r in self.requests if r.name in names])
        parts = [solver(a, {n: v[a:b] for n, v in whole.items()}) for a, b in blocks]  # type: ignore[operator]
        return np.concatenate(parts)

    def _sum(self, name: str) -> np.ndarray:
        settings, cohort = self.task.settings, self.cohort
        centred = cohort.ratings.astype(np.float64) - settings.shared.centre
        own = np.maximum(cohort.counts, 1)
        weight = np.repeat(np.minimum(1.0, settings.shared.mean_cap / own), cohort.counts)
        if name == "mean/sum":
            return np.array([[np.sum(weight * centred)]])
        if name == "mean/number":
            return np.array([[np.sum(weight)]])
        if name == "counts":
            weights = capped_counts(cohort, settings.shared.count_cap) * np.sqrt(settings.shared.count_cap)
            return np.bincount(cohort.items, weights=weights, minlength=cohort.n_items)[:, None]
        vectors = self.task.fit_local(cohort, self.board).astype(np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors *= np.minimum(1.0, settings.clip_norm / np.maximum(norms, 1e-30))
        weights = self.task.weigh(cohort, self.board)
        if name.endswith("linear"):
            labels = cohort.ratings - self.board.arrays["mean"][0]
            weights = weights * np.clip(labels, -settings.label_bound, settings.label_bound)
            return self._by_item(weights) @ vectors
        rows, columns = np.triu_indices(settings.rank)
        return self._by_item(weights) @ (vectors[:, rows] * vectors[:, columns])

    def _by_item(self, weights: np.ndarray) -> sp.csr_matrix:
        shape = (self.cohort.n_users, self.cohort.n_items)
        return sp.csr_matrix((weights, self.cohort.items, self.cohort.indptr), shape=shape).T


def integer_run(task: AdaDpals, problem: Problem, seed: int, budget: Budget) -> Board:
    board = task.first_board(problem.catalogue)
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.create(Path(folder) / "ledger", budget) as ledger,
        WorkerPool(1) as pool,
        Engine(task, problem.train, protocol=Trusted(backend=task.backend), pool=pool) as engine,
    ):
        while task.requests(board):
            board = run_round(task, board, runtime=engine, ledger=ledger, noise=SeededNoise(seed)).board
    return board


def real_run(task: AdaDpals, problem: Problem, seed: int) -> Board:
    board = task.first_board(problem.catalogue)
    while requests := task.requests(board):
        assert all(r.source is not SumSource.QUADRATIC for r in requests)  # explicit feedback only
        board = task.update(board, RealNumbers(task, board, problem.train, SeededNoise(seed), requests))
    return board


def compare(data: str, epsilon: float) -> Mapping[str, float]:
    config = parse_config(
        {"algorithm": "adadpals", "data": {"source": data}, "privacy": {"epsilon": epsilon}}
    )
    problem = load_problem(config)
    backend = choose_backend(8, problem.train.n_ratings)
    task = build_task(config, rating_range=problem.rating_range, backend=backend).task
    budget = Budget(epsilon=epsilon, delta=config.privacy.delta, adjacency=config.privacy.adjacency)
    boards = {"integers": integer_run(task, problem, 0, budget), "reals": real_run(task, problem, 0)}
    result = {}
    with WorkerPool(1) as pool:
        for name, board in boards.items():
            judged = judge_board(task, board, problem, part="test", pool=pool, backend=backend)
            result[f"{name}.test_rmse"] = judged.metrics["test_rmse"]
    result["cost"] = result["integers.test_rmse"] - result["reals.test_rmse"]
    return result


def main() -> None:
    """Compare both at each epsilon, and print what the grid costs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="synthetic")
    parser.add_argument("--epsilon", default="1,5,20")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = {}
    print("epsilon  integers  reals     cost (test RMSE; not private: simulation only)")
    for epsilon in (float(text) for text in options.epsilon.split(",")):
        found[f"{epsilon:g}"] = row = compare(options.data, epsilon)
        print(
            f"{epsilon:7g}  {row['integers.test_rmse']:.5f}   {row['reals.test_rmse']:.5f}   {row['cost']:+.5f}"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
