"""A run judged, and beside models without privacy: what the guarantee costs, and what it still beats."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedboard.common.algorithms.rebuilding import AnyTask
from fedboard.common.algorithms.supervised.examples import CohortTask
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.simulations.baselines import AlsModel, Predictor
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.examples import ExampleProblem
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.evaluation import (
    distributions,
    item_counts_of,
    judge,
    judge_board,
    neighbour_overlap,
)
from fedboard.simulations.evaluation.examples import examples_without_privacy, judge_examples
from fedboard.simulations.evaluation.references import ALS, NO_PRIVACY, fitting_of, reference_names
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import AnyProblem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.streams.problem import StreamedProblem

_FACTORS = "item_factors"
_USUAL_RANK = 2

OnProgress = Callable[[str, int, int], None]
"""(phase, parts done, parts in all)."""


def judged(
    task: AnyTask,
    board: Board,
    problem: AnyProblem,
    *,
    part: str,
    pool: WorkerPool,
    backend: str,
) -> dict[str, Any]:
    """What a run keeps of a board's judgement: ``metrics`` and, of ratings, more."""
    if isinstance(task, CohortTask):
        assert isinstance(problem, ExampleProblem)  # both were made of the algorithm's name
        return {"metrics": judge_examples(task, board, problem, part=part)}
    assert not isinstance(problem, ExampleProblem)
    return judge_board(task, board, problem, part=part, pool=pool, backend=backend).record()


def compared(
    config: SimulationConfig,
    problem: AnyProblem,
    board: Board,
    *,
    run: RunDirectory,
    pool: WorkerPool,
    backend: str,
    on_progress: OnProgress,
) -> dict[str, Any]:
    """The same of models without privacy, as a run keeps it."""
    if not isinstance(problem, ExampleProblem):
        return compare_with_baselines(
            config, problem, board, run=run, pool=pool, backend=backend, on_progress=on_progress
        )
    found = board.arrays.get("representation")
    rank = _USUAL_RANK if found is None else int(found.shape[1])
    return {"baselines": examples_without_privacy(problem, rank, on_progress=on_progress)}


def histograms(
    task: AnyTask, board: Board, problem: AnyProblem, *, pool: WorkerPool
) -> dict[str, Any] | None:
    """For the report; None where there is none, since examples have no items."""
    if isinstance(task, CohortTask):
        return None
    assert not isinstance(problem, ExampleProblem)
    return distributions(task, board, problem, pool=pool)


def compare_with_baselines(
    config: SimulationConfig,
    problem: Problem | StreamedProblem,
    board: Board,
    *,
    run: RunDirectory,
    pool: WorkerPool,
    backend: str,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Fit the models without privacy, judge them, and compare the board's neighbours with those of ALS.

    Everything is kept in the run's baselines.json; a resumed run takes it from there.

    Args:
        config: of the run.
        problem: its data. Private.
        board: its last board; ALS is fitted at the same rank.
        run: its directory.
        pool: who judges.
        backend: which kernels compute.
        on_progress: told after each model.

    Returns:
        ``baselines`` {name: {metric: value}}, ``baselines_sliced`` {name: {metric: [per bucket]}} and
        ``neighbours`` {"overlap@10": [per bucket]}, empty where the board has no item vectors; with streamed people
        also ``baselines_absent`` {name: why}, if any. Not private: simulation only.
    """
    report = on_progress or _ignore
    names = reference_names(config.feedback)
    entries = run.read_json(run.baselines) if run.baselines.exists() else {}
    settings = {ALS: _rank_of(board)}
    threads = config.run.workers  # of this machine, whoever else there is in the pool
    fit = fitting_of(problem, config.feedback, pool=pool, backend=backend, seed=config.seed, threads=threads)
    for done, name in enumerate(names):
        report("baselines", done, len(names))
        if name not in entries:
            try:
                model = fit(name, settings.get(name))
            except InputError as error:
                if not isinstance(problem, StreamedProblem):
                    raise
                entries[name] = {"absent": str(error)}
            else:
                entries[name] = _entry(model, problem, board, pool)
            run.write_json(run.baselines, entries)
    report("baselines", len(names), len(names))
    return _record({name: entries[name] for name in names})


def _rank_of(board: Board) -> dict[str, int]:
    """Settings of ALS at the rank of a board; its own rank where the board has no item vectors."""
    return {"rank": int(board.arrays[_FACTORS].shape[1])} if _FACTORS in board.arrays else {}


def _entry(
    model: Predictor, problem: Problem | StreamedProblem, board: Board, pool: WorkerPool
) -> dict[str, Any]:
    entry = {"label": NO_PRIVACY, **judge(model, problem, part="test", pool=pool).record()}
    if isinstance(model, AlsModel) and _FACTORS in board.arrays:
        factors = np.asarray(board.arrays[_FACTORS], dtype=np.float64)
        reference = model.item_factors.astype(np.float64)
        entry["overlap_of_run"] = neighbour_overlap(factors, reference, item_counts_of(problem, pool))
    return entry


def _record(entries: Mapping[str, Any]) -> dict[str, Any]:
    overlap = entries[ALS].get("overlap_of_run")
    fitted = {name: entry for name, entry in entries.items() if "absent" not in entry}
    absent = {name: entry["absent"] for name, entry in entries.items() if "absent" in entry}
    record = {
        "baselines": {name: entry["metrics"] for name, entry in fitted.items()},
        "baselines_sliced": {name: entry["sliced"] for name, entry in fitted.items()},
        "neighbours": {} if overlap is None else {"overlap@10": overlap},
    }
    return {**record, "baselines_absent": absent} if absent else record


def _ignore(phase: str, done: int, total: int) -> None:
    """Nobody wants to know."""
