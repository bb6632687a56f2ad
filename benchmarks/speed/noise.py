"""How fast noise is drawn: the whole path from key to published numbers, its parts, and other generators.

usage: python benchmarks/speed/noise.py [--json FILE] [--quick]

The path is that of every release (``BookedRelease.publish``): AES-256 in counter mode, one 64-bit word a draw, the
inverse normal distribution function, rounding into int64 sums, dropping the low bits. Draws per CPU second of one
core, the best of a few runs; ``publish`` takes the compiled kernels where numba is installed. Beside it numpy's
generators (not secure; float64 normals alone, and rounded into sums), the system's random bytes, and OpenDP's
samplers (exact, made for few draws). The target is 25 million draws per second and core.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

from fedboard.common import kernels  # noqa: E402
from fedboard.common.privacy.adjacency import Adjacency  # noqa: E402
from fedboard.common.privacy.ledger.ledger import Budget, Ledger  # noqa: E402
from fedboard.common.privacy.releases.gaussian import BookedRelease, GaussianRelease  # noqa: E402
from fedboard.common.privacy.releases.noise import NoiseStream, SecureNoise, noise_backend  # noqa: E402

TARGET = 25e6
RUNS = 5
ROWS, WIDTH = 20_000, 528  # a dense release at rank 32
WORDS_AT_ONCE = 1 << 16
OPENDP_SCALES = (1.0, 1e3, 1e6)
OPENDP_DRAWS = 20_000


@dataclass(slots=True)
class Results:
    """Numbers under flat names, and a line of text for each as it comes."""

    numbers: dict[str, float | str] = field(default_factory=dict)

    def rate(self, name: str, draws: int, seconds: float) -> float:
        """Record draws per second."""
        per_second = draws / seconds
        self.numbers[f"draws_per_second.{name}"] = per_second
        print(f"  {name:44s} {per_second / 1e6:12.4g} M/s {per_second / TARGET:10.3g} x target", flush=True)
        return per_second


def cpu_seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Least CPU seconds of a few runs, after one that warms up."""
    work()
    seconds = np.inf
    for _ in range(runs):
        start = time.process_time()
        work()
        seconds = min(seconds, time.process_time() - start)
    return float(seconds)


def booked(ledger: Ledger, rows: int) -> Iterator[BookedRelease]:
    """Releases that are paid for, one after another; each can be published once."""
    number = 0
    while True:
        number += 1
        release = GaussianRelease(
            name=f"benchmark-{number}",
            rows=rows,
            width=WIDTH,
            layout="vector",
            grid_step=2.0**-38,
            l2_bound=1 << 38,
            same_sign=True,
            adjacency=Adjacency.ADD_REMOVE,
            noise_multiplier=4.0,
            covers="nothing: a benchmark",
        )
        yield release.book(ledger, SecureNoise())


def measure_publish(rows: int, results: Results) -> float:
    """The whole path, as a release takes it."""
    sums = np.random.default_rng(0).integers(-(2**40), 2**40, (rows, WIDTH))
    budget = Budget(epsilon=1e3, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with tempfile.TemporaryDirectory() as folder, Ledger.create(Path(folder) / "ledger", budget) as ledger:
        releases = booked(ledger, rows)
        paid = iter([next(releases) for _ in range(RUNS + 1)])
        seconds = cpu_seconds(lambda: next(paid).publish(sums))
    return results.rate(f"publish.{noise_backend()}", sums.size, seconds)


def measure_parts(words: int, results: Results) -> None:
    """The steps of the path alone, and the path with the kernels that need no compiler."""
    stream = SecureNoise().stream("benchmark")
    starts = range(0, words, WORDS_AT_ONCE)
    results.rate("part.aes_256_ctr.words", words, cpu_seconds(lambda: draw_words(stream, starts)))
    bits = stream.bits(0, WORDS_AT_ONCE)
    sums = np.zeros((WORDS_AT_ONCE // 256, 256), dtype=np.int64)
    stddevs = np.full(256, 2.0**40)
    for backend in ("numpy", "compiled") if find_spec("numba") else ("numpy",):

        def normals(backend: str = backend) -> None:
            for _ in starts:
                kernels.standard_normal(bits, backend=backend)

        def into_sums(backend: str = backend) -> None:
            for _ in starts:
                kernels.noisy_sums(sums, bits, stddevs=stddevs, shift=20, backend=backend)

        def whole(backend: str = backend) -> None:
            for start in starts:
                own = stream.bits(start, WORDS_AT_ONCE)
                kernels.noisy_sums(sums, own, stddevs=stddevs, shift=20, backend=backend)

        results.rate(f"part.standard_normal.{backend}", words, cpu_seconds(normals))
        results.rate(f"part.rounded_into_sums.{backend}", words, cpu_seconds(into_sums))
        results.rate(f"path.{backend}", words, cpu_seconds(whole))


def draw_words(stream: NoiseStream, starts: range) -> None:
    for start in starts:
        stream.bits(start, WORDS_AT_ONCE)


def measure_numpy(words: int, results: Results) -> None:
    """Generators that are quick and predictable."""
    sums = np.zeros(WORDS_AT_ONCE, dtype=np.int64)
    for name in ("PCG64", "PCG64DXSM", "SFC64", "Philox", "MT19937"):
        generator = np.random.Generator(getattr(np.random, name)(0))

        def normals(generator: np.random.Generator = generator) -> None:
            for _ in range(0, words, WORDS_AT_ONCE):
                generator.standard_normal(WORDS_AT_ONCE)

        def rounded(generator: np.random.Generator = generator) -> None:
            for _ in range(0, words, WORDS_AT_ONCE):
                sums[:] = np.rint(generator.standard_normal(WORDS_AT_ONCE) * 2.0**40).astype(np.int64) + sums

        results.rate(f"numpy.{name}.normal", words, cpu_seconds(normals))
        results.rate(f"numpy.{name}.rounded_into_sums", words, cpu_seconds(rounded))
    few = words // 16
    results.rate("system.urandom.words", few, cpu_seconds(lambda: os.urandom(8 * few)))


def measure_opendp(results: Results) -> None:
    """The reference that tests compare with: exact for any scale, one number at a time."""
    if find_spec("opendp") is None:
        print("  opendp is not installed: pip install opendp to compare with it", flush=True)
        return
    import opendp.prelude as dp

    dp.enable_features("contrib")
    zeros = [0] * OPENDP_DRAWS
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    for scale in OPENDP_SCALES:
        measurement = dp.m.make_gaussian(*space, scale=scale)
        seconds = cpu_seconds(lambda measurement=measurement: measurement(zeros), runs=1)
        results.rate(f"opendp.gaussian.int.scale_{scale:g}", OPENDP_DRAWS, seconds)


def main() -> None:
    """Measure the whole path against its target, then its parts and the other generators."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the numbers there")
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    options = parser.parse_args()
    rows = ROWS // 10 if options.quick else ROWS
    results = Results()
    print(f"{rows} x {WIDTH} draws, one core, CPU time; target {TARGET / 1e6:g} M draws/s")
    reached = measure_publish(rows, results)
    words = rows * WIDTH // WORDS_AT_ONCE * WORDS_AT_ONCE
    measure_parts(words, results)
    measure_numpy(words, results)
    measure_opendp(results)
    results.numbers["target_draws_per_second"] = TARGET
    results.numbers["target_share"] = reached / TARGET
    results.numbers["machine"] = platform.machine()
    results.numbers["python"] = platform.python_version()
    for package in ("numpy", "scipy", "cryptography"):
        results.numbers[f"version.{package}"] = version(package)
    print(f"publish: {reached / TARGET:.2f} x target")
    if options.json:
        options.json.write_text(json.dumps(results.numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
