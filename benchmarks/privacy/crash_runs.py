"""A run that is killed in a process of its own: at a random moment, or just before or after a step."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads must not be forked
os.environ["PYTHONWARNINGS"] = (
    "ignore::UserWarning:multiprocessing.resource_tracker"  # it tidies up after kills
)

from fedboard.common.privacy.ledger import chain
from fedboard.common.privacy.ledger.chain import ChainFile
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.server.publication import BoardStore
from fedboard.simulations import simulate as simulation
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.directory import RunDirectory
from privacy.watching import append_line, watch, watch_draws

SURE = 1 - 1e-9  # recomputed numbers agree to rounding
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""What a kill leaves does not depend on the disk, only the time that it takes does."""
STEPS = {
    "book in the population": (Population, "book"),
    "write a row": (ChainFile, "_add"),
    "empty the log": (chain, "settle"),
    "draw noise": (BookedRelease, "publish"),
    "publish a board": (BoardStore, "publish"),
    "sync a file": (os, "fsync"),
    "put a file in place": (os, "replace"),
    "record a round": (RunDirectory, "append"),
}
"""Where a run can be killed to the point: owner and name of a function."""

Trial = Callable[[], object]


@dataclass
class Run:
    """One run directory, what its processes drew, and what they published."""

    path: Path
    config: SimulationConfig
    problem: Problem
    boards: dict[str, str] = field(default_factory=dict)
    """File name -> SHA-256 when it was first seen."""

    @property
    def draws_file(self) -> Path:
        return self.path.with_suffix(".draws")

    def draws(self) -> list[list[Any]]:
        """[release, first row, number of rows, digest of the key] of every draw, by any process."""
        if not self.draws_file.exists():
            return []
        return [json.loads(line) for line in self.draws_file.read_text().splitlines()]

    def go(self, *, resume: bool) -> None:
        simulation.simulate(self.config, self.path, resume=resume, problem=self.problem)


def logged_draws(run: Run) -> None:
    """Write down every draw before its values are handed over."""
    watch_draws(BookedRelease, lambda *drawn: append_line(run.draws_file, json.dumps(drawn)))


def in_a_process(work: Trial, *, delay: float | None = None) -> tuple[bool, str]:
    """Fork, run, and kill -9 after a delay; whether it was killed, and what it said if it failed by itself."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        code = 0
        try:
            work()
        except BaseException as error:
            os.write(theirs, f"{type(error).__name__}: {error}".encode())
            code = 1
        os._exit(code)
    os.close(theirs)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)  # not waited for yet, so the number is still its own
    _, status = os.waitpid(child, 0)
    with os.fdopen(ours, "rb") as stream:
        said = stream.read().decode()
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return killed, said


def to_the_end(run: Run, *, resume: bool, broken: Callable[[], None] | None = None) -> Trial:
    def work() -> None:
        logged_draws(run)
        if broken is not None:
            broken()
        run.go(resume=resume)

    return work


def to_a_step(run: Run, number: int, *, resume: bool, broken: Callable[[], None] | None = None) -> Trial:
    """Run, and die at the given step."""

    def work() -> None:
        steps = iter(range(number))

        def on_step(_: str) -> None:
            if next(steps, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        logged_draws(run)
        if broken is not None:
            broken()
        watch(STEPS, on_step)
        run.go(resume=resume)

    return work


def count_steps(run: Run) -> int:
    """How many steps an undisturbed run has."""
    seen = run.path.with_suffix(".steps")

    def work() -> None:
        with seen.open("ab", buffering=0) as stream:
            watch(STEPS, lambda name: stream.write(b"."))  # type: ignore[func-returns-value]
            run.go(resume=False)

    _, said = in_a_process(work)
    assert not said, said
    return seen.stat().st_size
