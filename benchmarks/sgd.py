"""How fast ratings go through the SGD and SGLD solver, against this machine's memory and libmf.

usage: python benchmarks/sgd.py [--json FILE] [--ranks 16,128,1024] [--quick]

Made-up ratings, 137k users x 20k items x 10M (see workload.py), each user's in the solver's order; at rank 1024 a
part of them. One thread is measured in CPU seconds, two in wall seconds. Ours, libmf and a copy through memory are
run in turns, a few times; rates are each one's best, speedups the median of the turns' ratios. libmf's seconds are
those of its second and later passes, so that its preparation does not count. "Bandwidth share": item and user
rows read and written once for each rating that a cache of nothing would ask for (an item row a rating, a user row a
segment), over what copying takes; caches make shares above 100 % possible.

libmf from PyPI, with vector instructions: CFLAGS="-O3 -march=native -DUSEAVX" pip install --no-binary :all: libmf
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
from workload import ML_20M_SPARSE, tenth  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where `research` is

from fedboard.common.cohort import Cohort  # noqa: E402
from research.block_solvers.blocks import MemoryStream, arrange  # noqa: E402
from research.block_solvers.factorisation import Factorisation, start  # noqa: E402
from research.block_solvers.sampling import DpmfConfig, langevin_rates  # noqa: E402
from research.block_solvers.sgd import SgdConfig, sgd_rates  # noqa: E402

TURNS, QUICK_TURNS = 5, 3
RATINGS_AT = {1024: 2_000_000}
LIBMF_RATINGS_AT = {128: 2_000_000, 1024: 200_000}
LIBMF_PASSES = 3
TABLE_SIZE = 1 << 20
COPY_BYTES = 1 << 27
NUMBER_BYTES = 4


@dataclass(slots=True)
class Results:
    """Numbers under nested names, and a line of text for each as it comes."""

    numbers: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def add(self, group: str, rank: int, value: float | None) -> None:
        self.numbers.setdefault(group, {})[f"d{rank}"] = value
        print(f"  {group + f'.d{rank}':52s} {'-' if value is None else f'{value:12.4g}'}", flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something that goes through ratings."""

    ratings: int
    run: Callable[[], None]

    def rate(self, clock: Callable[[], float]) -> float:
        begun = clock()
        self.run()
        return self.ratings / (clock() - begun)


def first_ratings(cohort: Cohort, most: int) -> Cohort:
    """The users that hold about so many ratings."""
    users = int(np.searchsorted(cohort.indptr, most))
    return cohort.rows(0, min(max(users, 1), cohort.n_users))


def solver(stream: MemoryStream, rank: int, *, threads: int) -> Factorisation:
    return start(
        stream,
        rank=rank,
        deviation=0.3 / np.sqrt(rank),
        mean=3.5,
        seed=0,
        threads=threads,
    )


def our_jobs(stream: MemoryStream, rank: int) -> dict[str, Job]:
    """A pass of SGD, of SGLD, and of SGLD that reads its noise from a table, on one thread and two."""
    config = DpmfConfig(
        epsilon=100.0, rating_range=(1.0, 5.0), most_ratings=int(stream.head.user_counts.max()), rank=rank
    )
    rates = {
        "sgd": sgd_rates(stream, SgdConfig(rank=rank, step=0.005), 1),
        "sgld": langevin_rates(stream, config, np.ones(stream.head.n_users), 1),
    }
    jobs = {}
    for name, threads, own in (
        ("sgd", 1, rates["sgd"]),
        ("sgld", 1, rates["sgld"]),
        ("sgld_table", 1, rates["sgld"]),
        ("sgd_two_threads", 2, rates["sgd"]),
        ("sgld_two_threads", 2, rates["sgld"]),
    ):
        model = solver(stream, rank, threads=threads)
        if name == "sgld_table":
            model.table = np.random.default_rng(0).standard_normal(TABLE_SIZE, dtype=np.float32)
        jobs[name] = Job(ratings=stream.head.n_ratings, run=_pass(model, own))
    return jobs


def _pass(model: Factorisation, rates: object) -> Callable[[], None]:
    order = np.random.default_rng(0)
    return lambda: model.sweep(rates, order)


class Libmf:
    """libmf's solver, if there is one."""

    def __init__(self) -> None:
        self._module = None
        if find_spec("libmf") is None:
            print("  libmf is not installed, see --help: speedups are null", flush=True)
            return
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            from libmf import mf
        self._module = mf

    def rate(self, cohort: Cohort, rank: int) -> float | None:
        """Ratings a CPU second, one thread, from the difference of a long and a short run."""
        if self._module is None:
            return None
        table = np.column_stack([cohort.user_of_entry(), cohort.items, cohort.ratings]).astype(np.float32)
        seconds = [self._seconds(table, rank, passes) for passes in (1, 1 + LIBMF_PASSES)]
        return LIBMF_PASSES * cohort.n_ratings / max(seconds[1] - seconds[0], 1e-9)

    def _seconds(self, table: np.ndarray, rank: int, passes: int) -> float:
        options = {"nr_threads": 1, "nr_iters": passes, "eta": 0.02, "quiet": True}
        model = self._module.MF(k=rank, lambda_p2=0.05, lambda_q2=0.05, **options)
        begun = time.process_time()
        model.fit(table)
        return time.process_time() - begun


def copied_bytes_per_second(threads: int) -> float:
    """Bytes read and written a second by copying far more than the caches hold; CPU seconds of one thread."""
    arrays = [np.ones(COPY_BYTES // threads, np.uint8) for _ in range(2 * threads)]
    pairs = list(zip(arrays[::2], arrays[1::2], strict=True))
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(4):
            clock = time.perf_counter if threads > 1 else time.process_time
            begun = clock()
            list(pool.map(lambda pair: np.copyto(*pair), pairs))
            best = min(best, clock() - begun)
    return 2 * COPY_BYTES / best


def row_bytes_per_rating(stream: MemoryStream, model: Factorisation) -> float:
    """Bytes of rows that one rating reads and writes, the user's shared by the ratings of her segment."""
    segments = sum(block.users.size for block in stream.blocks)
    row = model.items.rows.shape[1] * NUMBER_BYTES
    return 2 * row * (1 + segments / stream.head.n_ratings)


def measure(cohort: Cohort, rank: int, results: Results, *, turns: int, libmf: Libmf) -> None:
    stream = arrange(first_ratings(cohort, RATINGS_AT.get(rank, cohort.n_ratings)))
    jobs, per_rating = our_jobs(stream, rank), row_bytes_per_rating(stream, solver(stream, rank, threads=1))
    theirs_on = first_ratings(cohort, LIBMF_RATINGS_AT.get(rank, cohort.n_ratings // 3))
    best = dict.fromkeys((*jobs, "libmf", "copy", "copy_two_threads"), 0.0)
    speedups = []
    for job in jobs.values():
        job.run()  # loads the kernel, and gives every row its page
    for _ in range(turns):
        turn = {name: job.rate(_clock(name)) for name, job in jobs.items()}
        theirs = libmf.rate(theirs_on, rank)
        if theirs is not None:
            speedups.append(turn["sgd"] / theirs)
            turn["libmf"] = theirs
        turn["copy"], turn["copy_two_threads"] = copied_bytes_per_second(1), copied_bytes_per_second(2)
        best = {name: max(value, turn.get(name, 0.0)) for name, value in best.items()}
    results.add("ratings_per_second_per_core", rank, best["sgd"])
    results.add("sgld_ratings_per_second_per_core", rank, best["sgld"])
    results.add("sgld_table_ratings_per_second_per_core", rank, best["sgld_table"])
    results.add("two_threads_ratings_per_second", rank, best["sgd_two_threads"])
    results.add("two_threads_sgld_ratings_per_second", rank, best["sgld_two_threads"])
    results.add("libmf_ratings_per_second_per_core", rank, best["libmf"] or None)
    results.add("speedup_over_libmf", rank, statistics.median(speedups) if speedups else None)
    results.add("bandwidth_share", rank, best["sgd"] * per_rating / best["copy"])
    share = best["sgd_two_threads"] * per_rating / best["copy_two_threads"]
    results.add("two_threads_bandwidth_share", rank, share)
    results.add("copy_gigabytes_per_second", rank, best["copy"] / 1e9)
    results.add("two_threads_copy_gigabytes_per_second", rank, best["copy_two_threads"] / 1e9)


def _clock(name: str) -> Callable[[], float]:
    return time.perf_counter if name.endswith("two_threads") else time.process_time


def main() -> None:
    """Measure at each rank, in turn with the machine's memory and libmf."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the numbers there")
    parser.add_argument("--ranks", default="16,128,1024", help="comma separated")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the users, half the items, fewer turns"
    )
    options = parser.parse_args()
    workload = tenth(ML_20M_SPARSE) if options.quick else ML_20M_SPARSE
    cohort, results, libmf = workload.cohort(), Results(), Libmf()
    print(f"{workload.name}: {cohort.n_ratings} ratings; one thread CPU s, two threads wall s")
    for rank in map(int, options.ranks.split(",")):
        turns = QUICK_TURNS if options.quick else TURNS
        measure(cohort, rank, results, turns=turns, libmf=libmf)
    if options.json:
        options.json.write_text(json.dumps(results.numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
