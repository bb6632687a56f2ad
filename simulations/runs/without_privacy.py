"""Models without privacy: run like the private ones, or beside one, to tell what its guarantee costs."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.common.algorithms.registry import (
    AnyTask,
    algorithm_names,
    example_algorithm_names,
    learns_from_examples,
)
from fedboard.common.algorithms.supervised.examples import CohortTask
from fedboard.common.board import Board
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import USUAL
from fedboard.simulations.baselines.als import AlsModel, default_als
from fedboard.simulations.baselines.means import Predictor
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.examples import ExampleProblem
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.evaluation import (
    item_counts_of,
    judge,
    judge_board,
)
from fedboard.simulations.evaluation.examples import examples_without_privacy, judge_examples
from fedboard.simulations.evaluation.metrics.neighbours import overlap_by_popularity
from fedboard.simulations.evaluation.references import (
    ALS,
    NO_PRIVACY,
    Fitting,
    every_reference,
    fit_reference,
    is_reference,
    reference_names,
)
from fedboard.simulations.own_code import is_own
from fedboard.simulations.problem import Problem, StreamedProblem
from fedboard.simulations.runs.calibrated import AnyProblem, any_algorithm, backend_of, label_of, load_any
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.trainer import Simulated


def require_runnable(config: SimulationConfig) -> None:
    """Check that one run can learn with this algorithm, where clients are to run.

    Raises:
        InputError: an unknown algorithm, or a runtime or protocol for clients and a model that has none.
    """
    if is_reference(config.algorithm):
        if config.run.runtime != "engine":
            raise InputError(
                f"{config.algorithm} is fitted in one place, without clients: leave run.runtime (--runtime) at "
                f"'engine', got {config.run.runtime!r}"
            )
        if config.run.protocol != USUAL:
            raise InputError(
                f"{config.algorithm} is fitted in one place, without clients: leave run.protocol (--protocol) out, "
                f"got {config.run.protocol!r}"
            )
    elif is_own(config.algorithm):
        any_algorithm(config.algorithm)
    elif config.algorithm not in algorithm_names() and not learns_from_examples(config.algorithm):
        if config.algorithm.endswith(".py"):
            raise InputError(
                f"algorithm: name the record in the file too, such as {config.algorithm}:ALGORITHM"
            )
        on_examples = example_algorithm_names()
        known = (*algorithm_names(), *every_reference(), *on_examples)
        raise InputError(
            f"algorithm must be one of {', '.join(algorithm_names())}, or without privacy one of "
            f"{', '.join(every_reference())}, or on examples one of {', '.join(on_examples)}, or your own "
            f"as path/to/file.py:RECORD; got {config.algorithm!r}{did_you_mean(config.algorithm, known)}"
        )


def name_of(config: SimulationConfig) -> str:
    """What a run is called if nobody says: its algorithm and epsilon."""
    if is_reference(config.algorithm):
        return config.algorithm
    return f"{label_of(config.algorithm)}-eps{config.privacy.epsilon:g}"


def run_reference(
    config: SimulationConfig,
    out: Path,
    *,
    resume: bool = False,
    problem: Problem | StreamedProblem | None = None,
) -> dict[str, Any]:
    """Fit and judge one model without privacy: metrics only, no board, no ledger, no certificate.

    Args:
        config: what to run; its privacy section is not used.
        out: the run's directory; gets config.json and metrics.jsonl.
        resume: a finished run is read, an unfinished one is run again.
        problem: what ``load_any(config)`` gave, where many runs share it.

    Returns:
        The final record. Not private: simulation only.

    Raises:
        InputError: data or configuration cannot be used; nothing is left behind.
    """
    run, started = RunDirectory(out), time.monotonic()
    if resume:
        run.resume(config)
        if run.lines():
            return run.lines()[-1]
    else:
        run.require_free()
    loaded = problem or load_any(config)
    assert not isinstance(loaded, ExampleProblem)  # those are of other algorithms' names
    usual = default_als(config.feedback, rating_range=loaded.rating_range)
    with WorkerPool(config.run.workers, compiled=config.run.kernels != "numpy") as pool:
        fitting = Fitting.of(
            loaded,
            config.feedback,
            pool=pool,
            backend=backend_of(config, loaded, usual_rank=usual.rank),
            seed=config.seed,
            threads=config.run.workers,
        )
        model = fit_reference(config.algorithm, fitting, config.settings)
        found = judge(model, loaded, part="test", pool=pool)
    line = {
        "event": "final",
        "label": NO_PRIVACY,
        **found.record(),
        "seconds_total": time.monotonic() - started,
    }
    if not resume:
        run.start(config)
    run.keep_lines([line])
    return line


_FACTORS = "item_factors"
_USUAL_RANK = 2


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


def compared(simulated: Simulated, board: Board, *, pool: WorkerPool) -> dict[str, Any]:
    """Fit the models without privacy, judge them, and compare the board's neighbours with those of ALS.

    Everything is kept in the run's baselines.json; a resumed run takes it from there.

    Args:
        simulated: the run.
        board: its last board; ALS is fitted at the same rank.
        pool: who judges.

    Returns:
        ``baselines`` {name: {metric: value}}; of ratings ``baselines_sliced`` {name: {metric: [per bucket]}} and
        ``neighbours`` {"overlap@10": [per bucket]}, empty where the board has no item vectors; with streamed people
        also ``baselines_absent`` {name: why}, if any. Not private: simulation only.
    """
    config, problem, report = simulated.config, simulated.problem, simulated.listener.progress
    if isinstance(problem, ExampleProblem):
        found = board.arrays.get("representation")
        rank = _USUAL_RANK if found is None else int(found.shape[1])
        return {"baselines": examples_without_privacy(problem, rank, on_progress=report)}
    run, names = simulated.run, reference_names(config.feedback)
    entries = run.read_json(run.baselines) if run.baselines.exists() else {}
    fitting = Fitting.of(
        problem,
        config.feedback,
        pool=pool,
        backend=simulated.backend,
        seed=config.seed,
        threads=config.run.workers,  # of this machine, whoever else there is in the pool
    )
    for done, name in enumerate(names):
        report("baselines", done, len(names))
        if name not in entries:
            try:
                model = fit_reference(name, fitting, _rank_of(board) if name == ALS else None)
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
        entry["overlap_of_run"] = overlap_by_popularity(factors, reference, item_counts_of(problem, pool))
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
