"""How close the kernels come to what this machine can do.

usage: python benchmarks/kernels.py [--json FILE] [--ranks 32,64,128] [--quick]

Made-up ratings, 70k users x 10.7k items x 10M (see workload.py). One thread is measured in CPU seconds, two
threads in wall seconds; each is the least of a few runs, with BLAS held to one thread. "Useful" flops of a
ridge step: ratings x (d (d + 1) + 2 d) + rows x (d^3 / 3 + 2 d^2), whatever the kernel really does. The peak is
that of numpy's own matrix product (1024 x 1024), measured between the runs in the same process; it may use
narrower vectors than the kernels, so shares above 100 % are possible. Compiling is not counted, but shown:
compile_seconds is what a first run of `residual` waits for it, with an empty cache, on all cores there are.
peak_rss_mib is the most that this one process held, ratings and all: not what a kernel needs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
from process_tree import own_peak_mib  # noqa: E402
from workload import made_up  # noqa: E402

from fedboard.common import kernels  # noqa: E402
from fedboard.common.cohort import Cohort  # noqa: E402
from fedboard.common.privacy.releases.noise import SecureNoise  # noqa: E402

RUNS = 3
PEAK_SIZE = 1024
RIDGE = 1.0
N_MATRICES = 20_108
SAMPLED_MATRICES = 500
WORDS_AT_ONCE, N_BLOCKS = 1 << 16, 160
NUMPY_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One half of an ALS epoch: rows to solve for and the other side's factors."""

    name: str
    indptr: np.ndarray
    columns: np.ndarray
    targets: np.ndarray
    n_columns: int

    def factors(self, rank: int) -> np.ndarray:
        drawn = np.random.default_rng(rank).standard_normal((self.n_columns, rank), dtype=np.float32)
        return drawn / np.float32(np.sqrt(rank))

    def first(self, share: float) -> "Side":
        """The rows that hold about this share of the entries."""
        rows = max(1, int(np.searchsorted(self.indptr, share * self.indptr[-1])))
        stop = self.indptr[rows]
        return Side(
            name=self.name,
            indptr=self.indptr[: rows + 1],
            columns=self.columns[:stop],
            targets=self.targets[:stop],
            n_columns=self.n_columns,
        )

    def flops(self, rank: int) -> float:
        rows, entries = self.indptr.size - 1, int(self.indptr[-1])
        return entries * (rank * (rank + 1) + 2 * rank) + rows * (rank**3 / 3 + 2 * rank**2)

    def solver(self, rank: int, *, backend: str, threads: int = 1) -> Callable[[], None]:
        """The half epoch as a function."""
        factors = self.factors(rank)
        ridge = np.full(self.indptr.size - 1, RIDGE, np.float32)
        out = np.empty((ridge.size, rank), np.float32)

        def solve() -> None:
            arrays = (self.indptr, self.columns, self.targets, factors)
            kernels.solve_ridge(*arrays, ridge=ridge, gram=None, backend=backend, threads=threads, out=out)

        return solve


@dataclass(slots=True)
class Results:
    """Numbers under flat names, and a line of text for each as it comes."""

    numbers: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.numbers[name] = value
        print(f"  {name:48s} {value:12.4g}", flush=True)


class Peak:
    """The best rate of numpy's matrix product seen so far, flops per second, one thread."""

    def __init__(self, kind: type[np.floating]) -> None:
        self._matrix = np.random.default_rng(0).random((PEAK_SIZE, PEAK_SIZE)).astype(kind)
        self.rate = 0.0

    def measure(self) -> None:
        seconds = cpu_seconds(lambda: np.matmul(self._matrix, self._matrix))
        self.rate = max(self.rate, 2.0 * PEAK_SIZE**3 / seconds)


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def wall_seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def least(
    work: Callable[[], object], *, peak: Peak, clock: Callable[[Callable[[], object]], float] = cpu_seconds
) -> float:
    """Least seconds of a few runs, with the peak measured around each."""
    seconds = np.inf
    for _ in range(RUNS):
        peak.measure()
        seconds = min(seconds, clock(work))
    peak.measure()
    return float(seconds)


def sides_of(cohort: Cohort) -> tuple[Side, Side]:
    """The user step's rows and the item step's rows."""
    order = np.argsort(cohort.items, kind="stable")
    ends = np.cumsum(np.bincount(cohort.items, minlength=cohort.n_items))
    users = Side(
        name="user_step",
        indptr=cohort.indptr,
        columns=cohort.items,
        targets=cohort.ratings,
        n_columns=cohort.n_items,
    )
    items = Side(
        name="item_step",
        indptr=np.concatenate([[0], ends]).astype(np.int64),
        columns=cohort.user_of_entry()[order],
        targets=cohort.ratings[order],
        n_columns=cohort.n_users,
    )
    return users, items


def measure_ridge(side: Side, rank: int, results: Results) -> None:
    """One half epoch: compiled with one and two threads, numpy on a part, scaled up."""
    key, peak = f"{side.name}.d{rank}", Peak(np.float32)
    seconds = least(side.solver(rank, backend="compiled"), peak=peak)
    both = least(side.solver(rank, backend="compiled", threads=2), peak=peak, clock=wall_seconds)
    flops = side.flops(rank)
    results.add(f"seconds.{key}", seconds)
    results.add(f"gflops.{key}", flops / seconds / 1e9)
    results.add(f"peak_share.{key}", flops / seconds / peak.rate)
    results.add(f"two_threads.seconds.{key}", both)
    results.add(f"two_threads.peak_share.{key}", flops / both / (2 * peak.rate))
    results.add(f"sgemm_gflops.{key}", peak.rate / 1e9)
    part = side.first(NUMPY_SHARE)
    reference = cpu_seconds(part.solver(rank, backend="numpy")) * flops / part.flops(rank)
    results.add(f"numpy.seconds.{key}", reference)


def measure_statistics(items: Side, rank: int, results: Results) -> None:
    """The private item step: exact sums of integers, against the float64 peak."""
    rng = np.random.default_rng(rank)
    n_ratings = items.columns.size
    arrays = (
        items.indptr,
        items.columns,
        rng.permutation(n_ratings),
        rng.integers(-1000, 1001, (items.n_columns, rank)).astype(np.int16),
        rng.integers(0, 16385, n_ratings).astype(np.int16),
        rng.integers(-4096, 4097, n_ratings).astype(np.int16),
    )
    stop = items.indptr.size - 1
    peak = Peak(np.float64)
    seconds = least(
        lambda: kernels.item_statistics(*arrays, start=0, stop=stop, backend="compiled"), peak=peak
    )
    results.add(f"seconds.item_statistics.d{rank}", seconds)
    flops = n_ratings * (rank * (rank + 1) + 2 * rank)
    results.add(f"dgemm_share.item_statistics.d{rank}", flops / seconds / peak.rate)


def measure_psd(rank: int, results: Results) -> None:
    """Matrices of items with few and many users, all noisy; numpy's eigendecomposition on a sample."""
    rng = np.random.default_rng(rank)
    upper = np.triu_indices(rank)
    vectors = rng.standard_normal((2000, rank)) / np.sqrt(np.arange(1, rank + 1))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    second_moment = (vectors.T @ vectors / len(vectors))[upper]
    n_users = np.exp(rng.uniform(np.log(5), np.log(20_000), (N_MATRICES, 1)))
    quadratic = n_users * second_moment + 20.0 * rng.standard_normal((N_MATRICES, upper[0].size))
    linear = np.sqrt(n_users) * rng.standard_normal((N_MATRICES, rank))
    ridge = np.full(N_MATRICES, 5.0)
    peak = Peak(np.float64)
    seconds = least(lambda: kernels.solve_psd(quadratic, linear, ridge=ridge, backend="compiled"), peak=peak)
    results.add(f"seconds.solve_psd.d{rank}", seconds)
    few = slice(0, SAMPLED_MATRICES)
    sampled = cpu_seconds(
        lambda: kernels.solve_psd(quadratic[few], linear[few], ridge=ridge[few], backend="numpy")
    )
    results.add(f"numpy.seconds.solve_psd.d{rank}", sampled * N_MATRICES / SAMPLED_MATRICES)


def measure_noise(results: Results) -> None:
    """From key to published numbers as every release goes it, its parts, and generators that are not secure."""
    stream = SecureNoise().stream("benchmark")
    sums, stddevs = np.zeros((WORDS_AT_ONCE // 256, 256), np.int64), np.full(256, 2.0**40)
    generator = np.random.default_rng(0)
    bits = stream.bits(0, WORDS_AT_ONCE)

    def rate(name: str, draw: Callable[[], object]) -> None:
        draw()
        seconds = min(cpu_seconds(lambda: [draw() for _ in range(N_BLOCKS)]) for _ in range(RUNS))
        results.add(f"draws_per_second.{name}", N_BLOCKS * WORDS_AT_ONCE / seconds)

    for backend in ("compiled", "numpy"):
        publish = partial(kernels.noisy_sums, stddevs=stddevs, shift=20, backend=backend)
        rate(f"{backend}.standard_normal", partial(kernels.standard_normal, bits, backend=backend))
        rate(f"{backend}.path", lambda publish=publish: publish(sums, stream.bits(0, WORDS_AT_ONCE)))
    rate("aes_256_ctr", lambda: stream.bits(0, WORDS_AT_ONCE))
    rate("urandom", lambda: os.urandom(8 * WORDS_AT_ONCE))
    rate("numpy.pcg64.normal", lambda: generator.standard_normal(WORDS_AT_ONCE))


def compile_all(results: Results) -> None:
    """Compile, or read from the cache, everything that is timed."""
    nothing, empty = (np.zeros(1, np.int64), np.empty(0, np.int32)), np.empty(0, np.float32)
    places, vectors, shorts = np.empty(0, np.int64), np.ones((1, 8), np.int16), np.empty(0, np.int16)

    def load() -> None:
        compiled = {"backend": "compiled"}
        kernels.solve_ridge(*nothing, empty, np.ones((1, 8), np.float32), ridge=empty, **compiled)
        kernels.item_statistics(*nothing, places, vectors, shorts, shorts, start=0, stop=0, **compiled)
        kernels.solve_psd(np.empty((0, 36)), np.empty((0, 8)), ridge=np.empty(0), **compiled)
        kernels.standard_normal(np.empty(0, np.uint64), **compiled)

    results.add("seconds.compile_or_load", cpu_seconds(load))


FIRST_USE = """
import json, resource, time
from fedboard.simulations.runs import calibrated as choice

wall = time.perf_counter()
unused = choice.never_called("residual")
choice.compile_kernels("compiled", not_called=unused, on_progress=lambda *told: None)
wall = time.perf_counter() - wall
kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
print(json.dumps([wall, sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, kinds))]))
"""


def measure_first_use(results: Results) -> None:
    """What a first run of `residual` compiles and a second one finds: fresh processes, an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("compile", "load"):
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            command = [sys.executable, "-c", FIRST_USE]
            told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
            wall, cpu = json.loads(told)
            results.add(f"{name}_seconds", wall)
            results.add(f"{name}_cpu_seconds", cpu)


def main() -> None:
    """Compile first, then measure each kernel at each rank."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the numbers there")
    parser.add_argument("--ranks", default="32,64,128", help="comma separated")
    parser.add_argument("--quick", action="store_true", help="a tenth of the users, half the items")
    options = parser.parse_args()
    results = Results()
    sides = sides_of(made_up(quick=options.quick))
    print(f"{sides[0].indptr[-1]} ratings. Useful flops: ratings (d (d + 1) + 2 d)")
    print("+ rows (d^3 / 3 + 2 d^2); peak: numpy's matrix product; one thread CPU s, two threads wall s")
    compile_all(results)
    for rank in map(int, options.ranks.split(",")):
        for side in sides:
            measure_ridge(side, rank, results)
        measure_statistics(sides[1], rank, results)
        measure_psd(rank, results)
    measure_noise(results)
    measure_first_use(results)
    results.add("peak_rss_mib", own_peak_mib())
    if options.json:
        options.json.write_text(json.dumps(results.numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
