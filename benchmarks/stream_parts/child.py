"""One run in a process of its own, which writes down each round as it ends, so that nothing measured is lost."""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from process_tree import family, tree_cpu_seconds

from fedboard.simulations.config import parse_config
from fedboard.simulations.engine import runtime
from fedboard.simulations.simulate import simulate
from fedboard.simulations.streams.merging import SpanSums
from fedboard.simulations.streams.problem import StreamedProblem


class Told:
    """Listens to a run: CPU and wall seconds of each round; may kill the process in the middle of one."""

    def __init__(self, record: Path, kill_in: int | None) -> None:
        self._record, self._kill_in = record, kill_in
        self._rounds, self._of = 0, 0
        self._began: tuple[float, float] | None = None
        """CPU and wall clock when the round that is open began; None before the first."""
        self._before: int | None = None
        """Users who were in the sums already when this process began to ask; None before it did."""
        self._of_users = 0.0
        self.n_ratings: int | None = None

    def planned(self, problem: Any, rounds: object) -> None:
        self._of = problem.n_users if isinstance(problem, StreamedProblem) else 0
        self._open()

    def progress(self, phase: str, done: int, total: int) -> None:
        if self._began is None:
            return
        if self._before is None:
            self._before = done if phase == "users" and total == self._of else 0
        if phase != "users":
            return
        self._of_users = _cpu() - self._began[0]
        if self._rounds == self._kill_in and 2 * done > total:
            os.kill(os.getpid(), signal.SIGKILL)

    def round_finished(self, line: Mapping[str, Any]) -> None:
        """Also told of rounds that an earlier process ran, in which this one asked nobody."""
        self._rounds += 1
        if self._before is not None:
            self._write(line)
        self._open()

    def _open(self) -> None:
        self._began, self._before, self._of_users = (_cpu(), time.monotonic()), None, 0.0

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._began is not None
        told = {
            "round": line["round"],
            "stage": line["stage"],
            "whole": self._before == 0,
            "cpu_seconds": _cpu() - self._began[0],
            "cpu_seconds_of_users": self._of_users,
            "wall_seconds": time.monotonic() - self._began[1],
            "ratings": self.n_ratings,
        }
        with self._record.open("a") as stream:
            stream.write(json.dumps(told) + "\n")


def run_asked(asked: Mapping[str, Any]) -> dict[str, Any]:
    """One run, in this process."""
    told = Told(Path(asked["record"]), asked.get("kill_in"))
    checked = runtime.require_everybody

    def watching(sums: SpanSums, n_users: int) -> None:
        told.n_ratings = sums.n_ratings
        checked(sums, n_users)

    began = time.monotonic()
    with mock.patch.object(runtime, "require_everybody", watching):
        result = simulate(
            parse_config(asked["config"]),
            Path(asked["out"]),
            resume=asked["resume"],
            listener=told,
            report=False,
        )
    return {
        "digest": result.board.digest,
        "wall_seconds": time.monotonic() - began,
        "metrics": dict(result.final["metrics"]),
    }


def bytes_read(pid: int) -> int:
    """What a process and its children have read from files and pipes so far."""
    return sum(map(_bytes_read, family(pid)))


def _bytes_read(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("rchar:")), 0)


def _cpu() -> float:
    return tree_cpu_seconds(os.getpid())
