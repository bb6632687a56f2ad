"""The file that says what was begun in a directory, so that it can go on there.

The cells of a sweep: each a run of its own, several at the same time, one failing without the others.

Other private algorithms beside a run, at the same epsilon, on the same data: each a run in a folder within.
"""

import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from fedboard.common.algorithms.registry import floor_names
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.references import is_reference
from fedboard.simulations.problem import Problem, StreamedProblem, is_streamed, load_problem, open_problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.without_privacy import run_reference
from fedboard.simulations.sections import RunConfig
from fedboard.simulations.simulate import simulate

Record = TypeVar("Record", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile(Generic[Record]):
    """Where such a record stands, and what it is of."""

    name: str
    """Of the file."""
    kind: type[Record]
    what: str
    """What people call it, such as "a sweep"."""

    def read(self, out: Path) -> Record:
        """The record in a directory.

        Raises:
            InputError: there is none.
        """
        try:
            return msgspec.json.decode((out / self.name).read_bytes(), type=self.kind)
        except OSError as error:
            raise InputError(
                f"{out} holds no {self.what.partition(' ')[2]} to resume; start it without --resume"
            ) from error
        except msgspec.DecodeError as error:
            raise InputError(f"{out / self.name}: not the record of {self.what} ({error})") from error

    def begin(self, out: Path, record: Record, *, room: str, resume: bool = False) -> None:
        """Make a directory with a folder for what will be computed, and write the record into it.

        Args:
            out: the directory.
            record: what is begun.
            room: name of the folder.
            resume: whether the directory may hold a part of it.

        Raises:
            InputError: there is something else, or it cannot be made.
        """
        if not resume and out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(
                f"{out} is in use; go on with {self.what} that is there with --resume, or give another --out"
            )
        try:
            (out / room).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{out}: cannot be made ({error.strerror})") from error
        write_atomically(out / self.name, msgspec.json.format(msgspec.json.encode(record), indent=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of the grid."""

    name: str
    """Name of its directory."""
    config: SimulationConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """How a cell ended."""

    cell: Cell
    final: dict[str, Any] | None = None
    """The last record of its metrics.jsonl; None if it failed. Not private: simulation only."""
    error: str | None = None
    """One sentence, if it failed."""
    trace: str = ""
    """Where it failed."""
    was_finished: bool = False
    """Whether an earlier sweep had finished it."""


def run_cell(cell: Cell, folder: Path, problem: Problem | StreamedProblem | None = None) -> CellOutcome:
    """Run one cell, go on with it, or find that it has run; errors become part of the outcome."""
    try:
        run = RunDirectory(folder / cell.name)
        resume = run.config.exists()
        if resume:
            run.resume(cell.config)
            final = _finished(run, cell)
            if final is not None:
                return CellOutcome(cell=cell, final=final, was_finished=True)
        problem = problem or problem_of_cell(cell.config)
        if is_reference(cell.config.algorithm):
            final = run_reference(cell.config, run.path, resume=resume, problem=problem)
        else:
            final = dict(simulate(cell.config, run.path, resume=resume, problem=problem).final)
    except FedboardError as error:
        return CellOutcome(cell=cell, error=str(error), trace=traceback.format_exc())
    except Exception as error:
        return CellOutcome(cell=cell, error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    return CellOutcome(cell=cell, final=final)


def run_cells(
    cells: Sequence[Cell], folder: Path, *, jobs: int, problem: Problem | StreamedProblem | None = None
) -> Iterator[CellOutcome]:
    """Run all cells; yields each as it ends.

    Args:
        cells: with names of their own.
        folder: cells go to ``folder/<name>``.
        jobs: processes; with one, cells run in this process. Ratings are loaded once in each.
        problem: the data of all cells, if they are loaded already; only with one process. Private.

    Raises:
        WorkerDiedError: a process was killed; what has ended is kept.
    """
    if jobs == 1:
        yield from (run_cell(cell, folder, problem) for cell in cells)
        return
    with WorkerPool(jobs, prepare=_end_with_parent) as pool:
        yield from (
            outcome for _, outcome in pool.answers([partial(run_cell, cell, folder) for cell in cells])
        )


def _finished(run: RunDirectory, cell: Cell) -> dict[str, Any] | None:
    """The final record of a run that is complete, report included."""
    lines = run.lines()
    if not lines or lines[-1]["event"] != "final":
        return None
    if not is_reference(cell.config.algorithm) and not (run.path / "report.html").exists():
        return None
    return lines[-1]


def _data_of(config: SimulationConfig) -> bytes:
    """The part of a configuration that decides about ratings and split, as a key."""
    run = RunConfig(metrics=config.run.metrics)  # a problem says by which it is judged
    part = SimulationConfig(data=config.data, split=config.split, feedback=config.feedback, run=run)
    return msgspec.json.encode(part, order="sorted")


def problem_of_cell(config: SimulationConfig) -> Problem | StreamedProblem:
    """What ``load_any`` gives of ratings; those that are held, once per process."""
    return open_problem(config) if is_streamed(config) else shared_problem(config)


def shared_problem(config: SimulationConfig) -> Problem:
    """``load_problem``, but once per process for all runs in a row that share ratings and split."""
    return _loaded(_data_of(config))


@lru_cache(maxsize=1)
def _loaded(data: bytes) -> Problem:
    return load_problem(msgspec.json.decode(data, type=SimulationConfig))


def _end_with_parent() -> None:
    """A cell must not go on when its sweep was killed: it would hold the ledger that a resumed sweep needs."""

    def wait_for_its_end() -> None:
        parent = parent_process()
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=wait_for_its_end, daemon=True).start()


def run_beside(
    names: Sequence[str],
    config: SimulationConfig,
    place: Path,
    *,
    problem: Problem | StreamedProblem | None,
    pool: WorkerPool,
    on_progress: Callable[[str, int, int], None],
) -> dict[str, Mapping[str, float]]:
    """Run them, and keep what they reach in the run's beside.json, for its report.

    A floor runs as it is shipped, whatever settings the others have.

    Args:
        names: of algorithms.
        config: of the run.
        place: its directory.
        problem: its data, if they are loaded already. Private.
        pool: who computes.
        on_progress: told ("beside", runs done, runs in all).

    Returns:
        Held-out metrics by name. Not private: simulation only.
    """
    run, found = RunDirectory(place), dict[str, Mapping[str, float]]()
    floors = floor_names(config.feedback)
    quiet = msgspec.structs.replace(config.run, baselines=False, evaluate_rounds=False)
    for done, name in enumerate(names):
        on_progress("beside", done, len(names))
        settings: dict[str, Any] = {} if name in floors else config.settings
        other = msgspec.structs.replace(config, algorithm=name, run=quiet, settings=settings)
        final = simulate(other, place / name, problem=problem, report=False, pool=pool).final
        found[name] = final["metrics"]
    on_progress("beside", len(names), len(names))
    epsilon = config.privacy.epsilon
    entries = {
        name: {"epsilon": epsilon, "floor": name in floors, "metrics": dict(metrics)}
        for name, metrics in found.items()
    }
    run.write_json(run.beside, entries)
    return found
