"""Rounds on an engine of your own: anything that maps a function over a list, on however many machines.

    python examples/another_engine.py

Here that is a pool of threads; the guide's page ``another-engine`` says what it is on Beam and on Spark.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FullParticipation,
    require_unsampled,
)
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.task import ReleasedSums
from fedboard.server.round import run_round
from fedboard.server.runtime import Gathered, NoisedSums
from fedboard.server.training import plan_of
from fedboard.simulations.config import parse_config
from fedboard.simulations.engine.merging import SpanSums, require_everybody
from fedboard.simulations.engine.runtime import SpreadSums
from fedboard.simulations.engine.spans import SpanWork, sums_of_span
from fedboard.simulations.problem import open_problem
from fedboard.simulations.runs.calibrated import build_task

Mapped = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""A function and a list -> the results, in any order for ``gather``, in the order of the list for ``open``."""


@dataclass(frozen=True)
class AnotherEngine:
    """A runtime: who asks the clients of a round, and adds up what they give."""

    work: SpanWork
    n_spans: int
    mapped: Mapped

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Every span of users where the engine likes; sums merge in any order and in any tree."""
        n_users = self.work.stream.n_users
        if attendance is None:
            require_unsampled(requests)
        present = None if attendance is None else attendance.rows(n_users)
        work = replace(self.work, requests=tuple(requests), present=present)
        bounds = [n_users * k // self.n_spans for k in range(self.n_spans + 1)]
        spans = [span for span in pairwise(bounds) if span[0] < span[1]]
        sums = reduce(SpanSums.merged, self.mapped(partial(sums_of, work, board), spans))
        require_everybody(sums, n_users)
        return Gathered(sums=DenseSums(sums=sums.sums))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Blocks of items where the engine likes: noised, solved."""
        return SpreadSums(NoisedSums(sums=sums, requests=requests, booked=booked), self._solve, self.n_spans)

    def _solve(self, phase: str, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        return list(self.mapped(done, jobs))


def sums_of(work: SpanWork, board: Board, span: tuple[int, int]) -> SpanSums:
    """What a worker does with a span of users."""
    return sums_of_span(work, board, *span)


def done(job: Callable[[], Any]) -> Any:
    """What a worker does with a block of items."""
    return job()


def train(settings: Mapping[str, Any], mapped: Mapped, *, n_spans: int = 7) -> Board:
    """All rounds of a run; settings are those of ``fedboard simulate``."""
    config = parse_config(dict(settings))
    problem = open_problem(config)
    task = build_task(config, rating_range=problem.rating_range, backend="numpy").task
    work = SpanWork(
        task=task, stream=problem.stream, splitting=problem.splitting, requests=(), backend="numpy"
    )
    engine, everybody = AnotherEngine(work, n_spans, mapped), FullParticipation()
    budget = Budget(
        epsilon=config.privacy.epsilon, delta=config.privacy.delta, adjacency=Adjacency.ADD_REMOVE
    )
    board = task.first_board(problem.catalogue)
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.create(Path(folder) / "ledger", budget, plan=plan_of(task, everybody)) as ledger,
    ):
        while task.requests(board):
            noise = SeededNoise(config.seed)
            board = run_round(task, board, runtime=engine, ledger=ledger, noise=noise).board
    return board


def main() -> None:
    """A small run on four threads."""
    settings = {
        "algorithm": "bias-private",
        "data": {"synthetic": {"n_users": 3000, "n_items": 80}},
    }
    with ThreadPoolExecutor(4) as threads:
        print(train(settings, threads.map).digest)


if __name__ == "__main__":
    main()
