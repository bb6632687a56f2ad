"""What every adapter runs in: reads the job, times import, warm-up, conversion and training apart, writes results.

Runs in the environment of the library that it measures, so it needs nothing but NumPy. A job is a folder with
``spec.json`` and ``train.npz`` (user, item, rating; for a private round also the arrays of the public board), and
``warm/``, the same with a few of the users. Test ratings are not in it: only the judge has them.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]
Told = dict[str, Any]


class Job(NamedTuple):
    """One job as an adapter sees it."""

    folder: Path
    spec: dict[str, Any]
    variant: dict[str, Any]
    threads: int
    arrays: Arrays

    @property
    def user(self) -> np.ndarray:
        """int32, shape (n_ratings,), ascending."""
        return self.arrays["user"]

    @property
    def item(self) -> np.ndarray:
        """int32, shape (n_ratings,), ascending within a user."""
        return self.arrays["item"]

    @property
    def rating(self) -> np.ndarray:
        """float32, shape (n_ratings,): stars."""
        return self.arrays["rating"]

    @property
    def n_users(self) -> int:
        return int(self.arrays["n_users"])

    @property
    def n_items(self) -> int:
        return int(self.arrays["n_items"])

    def row_bounds(self) -> np.ndarray:
        """int64, shape (n_users + 1,): user j has the ratings ``bounds[j]:bounds[j + 1]``."""
        return np.searchsorted(self.user, np.arange(self.n_users + 1))


def read_job(folder: Path, variant: dict[str, Any], threads: int) -> Job:
    with np.load(folder / "train.npz") as file:
        arrays = {name: file[name] for name in file.files}
    return Job(folder, json.loads((folder / "spec.json").read_text()), variant, threads, arrays)


class Clock:
    """Wall and processor seconds of named parts of this process."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self.at: dict[str, tuple[float, float]] = {}

    def time(self, name: str, work: Callable[[], Any]) -> Any:
        wall, cpu = time.monotonic(), time.process_time()
        found = work()
        self.cpu_seconds[name] = time.process_time() - cpu
        self.at[name] = (wall, time.monotonic())
        self.seconds[name] = self.at[name][1] - wall
        return found


def peak_memory_mb() -> float:
    """Most memory that this process held, MB. From /proc where there is one: what the system tells at the end of a
    process counts what its parent held when it was started."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def measured(
    distribution: str,
    load: Callable[[], Any],
    prepare: Callable[[Any, Job], Any],
    fit: Callable[[Any, Job, Any], tuple[Arrays, Told]],
    *,
    warm_up: bool = True,
) -> None:
    """Run one adapter; arguments of the command: folder of the job, folder for the results, variant, threads.

    Args:
        distribution: whose version is written down.
        load: imports the library and returns it.
        prepare: brings a job's arrays into the library's own form; timed as ``convert``.
        fit: trains; timed as ``fit``. Returns arrays for the judge and anything to be told; ``fit_at`` there, a
            pair of ``time.monotonic()``, replaces the time of the whole call.
        warm_up: whether to go through it once with the few users first, so that no compilation is in the times.
    """
    folder, out, variant, threads = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        json.loads(sys.argv[3]),
        int(sys.argv[4]),
    )
    clock = Clock()
    library = clock.time("import", load)
    if warm_up:
        few = read_job(folder / "warm", variant, threads)
        clock.time("warm_up", lambda: fit(library, few, prepare(library, few)))
    job = read_job(folder, variant, threads)
    ready = clock.time("convert", lambda: prepare(library, job))
    arrays, told = clock.time("fit", lambda: fit(library, job, ready))
    if "fit_at" in told:
        start, stop = told.pop("fit_at")
        clock.at["fit"], clock.seconds["fit"] = (start, stop), stop - start
    np.savez(out / "result.npz", **arrays)
    report = {
        "version": version(distribution),
        "numpy": np.__version__,
        "seconds": clock.seconds,
        "cpu_seconds": clock.cpu_seconds,
        "at": clock.at,
        "peak_memory_mb": peak_memory_mb(),
        "told": told,
    }
    (out / "times.json").write_text(json.dumps(report))
