"""Models without any privacy, run like the private ones so that their numbers can be laid side by side."""

import time
from pathlib import Path
from typing import Any

from fedboard.common.algorithms.registry import algorithm_names
from fedboard.common.algorithms.supervised.registry import example_algorithm_names, learns_from_examples
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import USUAL
from fedboard.simulations.baselines import Predictor, default_als
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.examples import ExampleProblem
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.evaluation import judge
from fedboard.simulations.evaluation.references import (
    NO_PRIVACY,
    every_reference,
    fitting_of,
    is_reference,
)
from fedboard.simulations.own_code import is_own
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.algorithm_choice import any_algorithm
from fedboard.simulations.runs.calibrated import load_any
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.kernel_choice import backend_of
from fedboard.simulations.streams.problem import StreamedProblem


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
    problem = problem or _loaded(config)
    with WorkerPool(config.run.workers, compiled=config.run.kernels != "numpy") as pool:
        model = _fitted(config, problem, pool)
        judged = judge(model, problem, part="test", pool=pool)
    line = {
        "event": "final",
        "label": NO_PRIVACY,
        **judged.record(),
        "seconds_total": time.monotonic() - started,
    }
    if not resume:
        run.start(config)
    run.keep_lines([line])
    return line


def _loaded(config: SimulationConfig) -> Problem | StreamedProblem:
    problem = load_any(config)
    assert not isinstance(problem, ExampleProblem)  # those are of other algorithms' names
    return problem


def _fitted(config: SimulationConfig, problem: Problem | StreamedProblem, pool: WorkerPool) -> Predictor:
    usual = default_als(config.feedback, rating_range=problem.rating_range)
    backend = backend_of(config, problem, usual_rank=usual.rank)
    fit = fitting_of(
        problem,
        config.feedback,
        pool=pool,
        backend=backend,
        seed=config.seed,
        threads=config.run.workers,
    )
    return fit(config.algorithm, config.settings)


__all__ = ["is_reference", "require_runnable", "run_reference"]
