"""Who is measured: one line a row, one adapter a library, in an environment of its own; and how a row is run."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from process_tree import cpu_seconds, family, own_memory

INSTALL_SECONDS = ROW_SECONDS = 1800.0
SECONDS_BETWEEN_LOOKS = 0.2
LAST_WORDS = 400
THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "RAYON_NUM_THREADS", "LK_NUM_THREADS", "LK_NUM_BACKEND_THREADS"),
)


@dataclass(eq=False)
class SkippedError(Exception):
    """Why a row has no numbers: at which step, and the last thing that was said there."""

    step: str
    reason: str


class Peer(NamedTuple):
    """One row: a library, one way of using it, and the kind of job that it does."""

    name: str
    requirements: tuple[str, ...]
    """Versions stand here and nowhere else. Empty: it runs in the environment of this script."""
    adapter: str
    kind: str
    told: str
    """What is behind the numbers, for the table."""
    variant: dict[str, Any] | None = None
    """Handed to the adapter."""
    tree: bool = False
    """Whether it works in processes of its own, so that time and memory are summed over all of them."""


KINDS = ("explicit", "implicit", "round")
OURS = "ours"
IMPLICIT = ("implicit>=0.7.2,<0.8", "numpy>=1.26,<3", "scipy>=1.11,<2")
LENSKIT = ("lenskit>=2025.8,<2026",)
LIBMF = ("libmf>=0.9.2,<1", "numpy>=1.26,<3")
PFL = ("pfl>=0.6,<0.7",)
FLOWER = ("flwr[simulation]>=1.41,<1.43",)
PEERS = (
    Peer("ours-explicit", (), "ours_als_row", "explicit", "exact ALS, and one user step more"),
    Peer(
        "lenskit-explicit", LENSKIT, "lenskit_row", "explicit", "BiasedMFScorer without its biases: exact ALS"
    ),
    Peer("libmf", LIBMF, "libmf_row", "explicit", "stochastic gradients, as many passes as sweeps"),
    Peer("ours-implicit", (), "ours_als_row", "implicit", "exact ALS, and one user step more"),
    Peer(
        "implicit-exact", IMPLICIT, "implicit_row", "implicit", "exact ALS (use_cg=False)", {"use_cg": False}
    ),
    Peer(
        "implicit-cg",
        IMPLICIT,
        "implicit_row",
        "implicit",
        "conjugate gradients, its default",
        {"use_cg": True},
    ),
    Peer("lenskit", LENSKIT, "lenskit_row", "implicit", "ImplicitMFScorer: exact ALS"),
    Peer(
        "ours-round",
        (),
        "ours_round_row",
        "round",
        "engine, ledger on disk, exact sums, secure noise",
        tree=True,
    ),
    Peer("numpy", (), "numpy_round_row", "round", "a loop over users in NumPy, no framework"),
    Peer(
        "pfl", PFL, "pfl_row", "round", "SimulatedBackend, GaussianMechanism, dense statistics of each user"
    ),
    Peer("flower", FLOWER, "flower_row", "round", "its simulation on Ray, ten nodes in NumPy", tree=True),
)


def interpreter_of(requirements: tuple[str, ...], folder: Path) -> Path:
    """The Python that runs a library's adapter; makes its environment in the folder the first time.

    Raises:
        SkippedError: it does not install.
    """
    if not requirements:
        return Path(sys.executable)
    key = hashlib.sha256(json.dumps([sys.version_info[:2], requirements]).encode()).hexdigest()[:10]
    place = folder / key
    python, ready = place / "bin" / "python", place / "ready"
    if not ready.exists():
        print(f"installs {', '.join(requirements)}", flush=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *requirements,
        ]
        for command in ([sys.executable, "-m", "venv", "--clear", str(place)], install):
            try:
                told = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise SkippedError("install", str(error)) from None
            if told.returncode:
                raise SkippedError("install", last_words(told.stderr or told.stdout))
        ready.touch()
    return python


def last_words(text: str) -> str:
    """The last lines that say something; warnings are left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return " | ".join(lines[-3:])[-LAST_WORDS:] or "nothing was said"


@dataclass
class Watch:
    """All processes of a tree, looked at from time to time: time of those that ended since counts as last seen."""

    pid: int
    peak_gb: float = 0.0
    of_process: dict[int, float] = field(default_factory=dict)
    looks: list[tuple[float, float]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_LOOKS):
            members = family(self.pid)
            for member in members:
                self.of_process[member] = max(self.of_process.get(member, 0.0), cpu_seconds(member))
            self.peak_gb = max(self.peak_gb, sum(map(own_memory, members)))
            self.looks.append((time.monotonic(), sum(self.of_process.values())))

    def cpu_between(self, start: float, stop: float) -> float:
        """Processor seconds of the tree between two times, by straight lines between looks."""
        times, seconds = np.array(self.looks or [(start, 0.0)]).T
        return float(np.interp(stop, times, seconds) - np.interp(start, times, seconds))

    def kill(self) -> None:
        """End the processes, those of sessions of their own too: each by its number."""
        for member in (*({*family(self.pid), *self.of_process} - {self.pid}), self.pid):
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue


def run_row(peer: Peer, python: Path, *, job: Path, out: Path, threads: int) -> dict[str, Any]:
    """Run one adapter to its end, in a process that is watched from outside.

    Returns:
        ``version``, ``seconds`` and ``cpu_seconds`` by part (``import``, ``warm_up``, ``convert``, ``fit``),
        ``peak_memory_mb``, ``told``.

    Raises:
        SkippedError: it failed or took too long.
    """
    environment = os.environ | dict.fromkeys(THREADS, str(threads)) | {"PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    script = Path(__file__).parent / "adapters" / f"{peer.adapter}.py"
    words = [str(python), str(script), str(job), str(out), json.dumps(peer.variant or {}), str(threads)]
    with (out / "said.txt").open("w") as said:
        process = subprocess.Popen(
            words, stdout=said, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        watch = Watch(process.pid)
        follower = threading.Thread(target=watch.follow, daemon=True)
        follower.start()
        try:
            process.wait(ROW_SECONDS)
        except subprocess.TimeoutExpired:
            watch.kill()
            process.wait()
            raise SkippedError("time", f"ended after {ROW_SECONDS:.0f} s") from None
        finally:
            watch.over.set()
            follower.join()
    if process.returncode != 0:
        raise SkippedError("run", last_words((out / "said.txt").read_text(errors="replace")))
    found: dict[str, Any] = json.loads((out / "times.json").read_text())
    at = found.pop("at")
    if peer.tree and (peer.requirements or threads > 1):
        found["peak_memory_mb"] = max(found["peak_memory_mb"], watch.peak_gb * 2**30 / 1e6)
        found["cpu_seconds"] |= {name: watch.cpu_between(*span) for name, span in at.items()}
    return found
