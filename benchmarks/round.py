"""What a whole private round costs: its parts, against a non-private epoch, and memory.

usage: python benchmarks/round.py [--ranks 8,32,64] [--quick] [--json FILE]

Made-up ratings (see workload.py). Each measurement runs in a fresh process on the real code: engine, ledger,
secure noise, task. CPU seconds are of all processes of the run, the least of a few rounds; parts are timed by
wrapping the functions that do them. Compiling is not counted. Private rounds: AdaDPALS item rounds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from process_tree import cpu_seconds, peak_memory
from workload import made_up

from fedboard.common import kernels
from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig, BudgetShares, shares_by_release
from fedboard.common.algorithms.shared.ratings_config import with_noise
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocols.sums.exact import FactoredSums, index_by_item
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.round import run_round
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.spans import SpanWork

MEASURED_ROUNDS = 4
PLACES = (
    (kernels, "solve_ridge", "user_solve"),
    (SpanWork, "checked", "client_rest"),
    (FactoredSums, "block", "statistics"),
    (BookedRelease, "publish", "noise"),
    (kernels, "solve_psd", "psd_solve"),
)
BUDGET = Budget(epsilon=5.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
PARTS = ("user_solve", "client_rest", "statistics", "noise", "psd_solve", "rest")


class Stopwatch:
    """CPU seconds inside named functions of this process, without those of named functions they call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            start = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                spent = time.process_time() - start
                own = spent - self._inner.pop()
                self.seconds[name] = self.seconds.get(name, 0.0) + own
                self._inner[-1] += spent

        return run

    @contextmanager
    def watching(self, places: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
        """Wrap functions: (owner, attribute, name) of each."""
        with ExitStack() as stack:
            for owner, attribute, name in places:
                timed = self.timed(name, getattr(owner, attribute))
                stack.enter_context(mock.patch.object(owner, attribute, timed))
            yield


@dataclass(slots=True)
class Run:
    """A private run on its way: what a simulation holds open between rounds."""

    cohort: Cohort
    rank: int
    workers: int
    stack: ExitStack
    task: AdaDpals = field(init=False)
    engine: Engine = field(init=False)
    board: Board = field(init=False)
    pool: WorkerPool = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Start, and get the preparation round over."""
        backend = kernels.choose_backend(self.rank, self.cohort.n_ratings)
        config = AdaDpalsConfig(rank=self.rank, rounds=1 + MEASURED_ROUNDS)
        multipliers = noise_multipliers(
            BUDGET.epsilon, BUDGET.delta, shares_by_release(config, BudgetShares())
        )
        self.task = AdaDpals(with_noise(config, multipliers), backend)
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.ledger = self.stack.enter_context(
            Ledger.create(Path(folder) / "ledger", BUDGET, plan=multipliers)
        )
        self.pool = self.stack.enter_context(WorkerPool(self.workers))
        protocol = Trusted(backend=backend)
        self.engine = self.stack.enter_context(
            Engine(self.task, self.cohort, protocol=protocol, pool=self.pool)
        )
        self.board = self.task.first_board(Catalogue(item_ids=tuple(map(str, range(self.cohort.n_items)))))
        self.next_round()

    def next_round(self) -> tuple[float, float]:
        """Run a round; returns its wall and CPU seconds."""
        wall, cpu = time.perf_counter(), self.cpu()
        done = run_round(self.task, self.board, runtime=self.engine, ledger=self.ledger, noise=SecureNoise())
        self.board = done.board
        return time.perf_counter() - wall, self.cpu() - cpu

    def cpu(self) -> float:
        """CPU seconds of this process and the workers so far."""
        return time.process_time() + sum(cpu_seconds(pid) for pid in self.pool.process_ids)


def whole_round(cohort: Cohort, rank: int) -> dict[str, float]:
    """One worker: a private round and its parts, and a non-private epoch beside it."""
    rounds = []
    with ExitStack() as stack:
        run = Run(cohort, rank, 1, stack)
        run.next_round()  # compiles, fills caches
        for _ in range(MEASURED_ROUNDS):
            watch = Stopwatch()
            with watch.watching(PLACES):
                wall, cpu = run.next_round()
            rounds.append((cpu, wall, watch.seconds))
        backend = run.task.backend
    cpu, wall, parts = min(rounds, key=lambda measured: measured[0])
    parts["rest"] = cpu - sum(parts.values())
    epoch = min(non_private_epochs(cohort, rank, backend))
    shares = {f"share.{name}.d{rank}": parts[name] / cpu for name in PARTS}
    return {
        f"cpu_seconds.d{rank}": cpu,
        f"wall_seconds.d{rank}": wall,
        f"non_private_cpu_seconds.d{rank}": epoch,
        f"private_over_nonprivate.d{rank}": cpu / epoch,
        **shares,
    }


def non_private_epochs(cohort: Cohort, rank: int, backend: str) -> list[float]:
    """CPU seconds of epochs of plain ALS on the same kernels: users, then items."""
    index = index_by_item(cohort.indptr, cohort.items, cohort.n_items)
    labels = cohort.ratings - np.float32(3.5)
    by_item = labels[index.entries]
    items = np.random.default_rng(0).standard_normal((cohort.n_items, rank), dtype=np.float32)
    user_ridge = np.full(cohort.n_users, 10.0, dtype=np.float32)
    item_ridge = np.full(cohort.n_items, 10.0, dtype=np.float32)
    seconds = []
    for _ in range(1 + MEASURED_ROUNDS):
        start = time.process_time()
        users = kernels.solve_ridge(
            cohort.indptr, cohort.items, labels, items, ridge=user_ridge, backend=backend
        )
        items = kernels.solve_ridge(
            index.indptr, index.users, by_item, users, ridge=item_ridge, backend=backend
        )
        seconds.append(time.process_time() - start)
    return seconds


def two_workers(cohort: Cohort, rank: int) -> dict[str, float]:
    """The same round with two worker processes."""
    with ExitStack() as stack:
        run = Run(cohort, rank, 2, stack)
        run.next_round()
        rounds = [run.next_round() for _ in range(MEASURED_ROUNDS)]
    return {
        f"wall_seconds.d{rank}.workers2": min(wall for wall, _ in rounds),
        f"cpu_seconds.d{rank}.workers2": min(cpu for _, cpu in rounds),
    }


def one_round(cohort: Cohort, rank: int) -> dict[str, float]:
    """Two workers, one round: whoever starts this watches its memory."""
    with ExitStack() as stack:
        Run(cohort, rank, 2, stack).next_round()
    return {}


MEASUREMENTS: Mapping[str, Callable[[Cohort, int], dict[str, float]]] = {
    function.__name__: function for function in (whole_round, two_workers, one_round)
}


def measure(name: str, data: Path, rank: int) -> tuple[dict[str, float], float]:
    """Run a measurement in a fresh process; returns its numbers and its peak memory in GB."""
    command = [sys.executable, __file__, "--only", name, "--data", str(data), "--ranks", str(rank)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak = peak_memory(process) if name == "one_round" else 0.0
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    numbers: dict[str, float] = json.loads(output)
    return numbers, peak


def all_measurements(ranks: Sequence[int], *, quick: bool) -> Iterator[dict[str, float]]:
    """Every number of the benchmark, as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        data = save(Path(folder) / "10m.npz", quick=quick)
        for rank in ranks:
            yield measure("whole_round", data, rank)[0]
            yield measure("two_workers", data, rank)[0]
        peak = measure("one_round", data, max(ranks))[1]
        yield {"peak_memory_gb": peak}


def save(path: Path, *, quick: bool) -> Path:
    """Make a population and store it, so that making it counts in no measurement."""
    cohort = made_up(quick=quick)
    print(f"{cohort.n_users} users, {cohort.n_items} items, {cohort.n_ratings} ratings")
    np.savez(path, indptr=cohort.indptr, items=cohort.items, ratings=cohort.ratings, n_items=cohort.n_items)
    return path


def load(path: Path) -> Cohort:
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in ("indptr", "items", "ratings")}
        return Cohort(**arrays, n_items=int(stored["n_items"]))


def main() -> None:
    """Measure all, each part in a process of its own; with ``--only`` this is such a process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", default="8,32,64", help="ranks of the whole round, separated by commas")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the numbers here as well")
    parser.add_argument("--only", choices=MEASUREMENTS, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    ranks = [int(rank) for rank in options.ranks.split(",")]
    if options.only is not None:
        print(json.dumps(MEASUREMENTS[options.only](load(options.data), ranks[0])))
        return
    result: dict[str, float] = {}
    for numbers in all_measurements(ranks, quick=options.quick):
        for name, value in numbers.items():
            print(f"  {name:44} {value:12,.3f}", flush=True)
        result |= numbers
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
