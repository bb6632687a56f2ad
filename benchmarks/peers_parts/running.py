"""One row in a process of its own, watched from outside: seconds, processor seconds, memory; or why it has none."""

import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from process_tree import cpu_seconds, family, own_memory

from peers_parts.environments import SkippedError, last_words
from peers_parts.registry import Peer

SECONDS_BETWEEN_LOOKS = 0.2
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "LK_NUM_THREADS",
    "LK_NUM_BACKEND_THREADS",
)
MB = 1e6


@dataclass
class Watch:
    """All processes of a tree, looked at from time to time: time of those that ended since counts as last seen."""

    pid: int
    peak_gb: float = 0.0
    of_process: dict[int, float] = field(default_factory=dict)
    looks: list[tuple[float, float]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LOOKS):
            members = family(self.pid)
            for member in members:
                self.of_process[member] = max(self.of_process.get(member, 0.0), cpu_seconds(member))
            self.peak_gb = max(self.peak_gb, sum(map(own_memory, members)))
            self.looks.append((time.monotonic(), sum(self.of_process.values())))

    def stop(self) -> None:
        self._over.set()

    def cpu_between(self, start: float, stop: float) -> float:
        """Processor seconds of the tree between two times, by straight lines between looks."""
        if not self.looks:
            return 0.0
        times, seconds = np.array(self.looks).T
        return float(np.interp(stop, times, seconds) - np.interp(start, times, seconds))


def run_row(
    peer: Peer, python: Path, *, job: Path, out: Path, threads: int, most_seconds: float
) -> dict[str, Any]:
    """Run one adapter to its end.

    Args:
        peer: the row.
        python: interpreter of its environment.
        job: folder of the job.
        out: an empty folder for its results.
        threads: for everybody the same.
        most_seconds: after which it is ended.

    Returns:
        ``version``, ``seconds`` and ``cpu_seconds`` by part (``import``, ``warm_up``, ``convert``, ``fit``),
        ``peak_memory_mb``, ``told``.

    Raises:
        SkippedError: it failed or took too long.
    """
    environment = os.environ | dict.fromkeys(THREADS, str(threads)) | {"PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    command = [
        str(python),
        str(peer.script),
        str(job),
        str(out),
        json.dumps(dict(peer.variant)),
        str(threads),
    ]
    with (out / "said.txt").open("w") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        watch = Watch(process.pid)
        follower = threading.Thread(target=watch.follow, daemon=True)
        if peer.grows(threads):
            follower.start()
        timer = threading.Timer(most_seconds, _end, (process.pid, watch))
        timer.start()
        process.wait()
        late = not timer.is_alive()
        timer.cancel()
        watch.stop()
    if late:
        raise SkippedError("time", f"ended after {most_seconds:.0f} s")
    if process.returncode != 0:
        raise SkippedError("run", last_words((out / "said.txt").read_text(errors="replace")))
    found: dict[str, Any] = json.loads((out / "times.json").read_text())
    at = found.pop("at")
    if peer.grows(threads):
        follower.join()
        found["peak_memory_mb"] = max(found["peak_memory_mb"], watch.peak_gb * 2**30 / MB)
        found["cpu_seconds"] |= {name: watch.cpu_between(*span) for name, span in at.items()}
    return found


def _end(pid: int, watch: Watch) -> None:
    """End a row's processes, those of its own sessions too: each by its number."""
    for member in {*family(pid), *watch.of_process} - {pid}:
        _kill(member)
    _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
