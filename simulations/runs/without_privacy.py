"""Models without any privacy, run like the private ones so that their numbers can be laid side by side."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import USUAL
from fedboard.common.tasks.on_examples.registry import example_algorithm_names, learns_from_examples
from fedboard.common.tasks.registry import algorithm_names
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations import baselines
from fedboard.simulations.baselines import Predictor
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.datasets.examples import ExampleProblem
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.judging.references import ceilings
from fedboard.simulations.judging.references.known import (
    ALS,
    NO_PRIVACY,
    als_config,
    ceiling_names,
    every_reference,
    require_reference,
)
from fedboard.simulations.judging.references.streamed import StreamedReferences
from fedboard.simulations.judging.streamed import judge_any
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


def is_reference(algorithm: str) -> bool:
    """Whether this is the name of a model without privacy."""
    return algorithm in every_reference()


def fit_reference(
    name: str,
    problem: Problem,
    *,
    feedback: Feedback,
    backend: str,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Predictor:
    """Fit a model to the raw training ratings.

    Args:
        name: one of ``reference_names`` or ``ceiling_names``.
        problem: the data. Private.
        feedback: what a rating says.
        backend: which kernels compute.
        settings: of ``als`` only: rank, rounds and its ridges.
        seed: of the first factors of ``als``.
        threads: of ``als``.

    Returns:
        The model. Not private: simulation only.

    Raises:
        InputError: the model does not fit the feedback, or an unknown setting.
    """
    chosen = require_reference(name, feedback, settings)
    if name == ALS:
        config = _als_config(chosen, problem, feedback)
        return baselines.fit_als(problem.train, replace(config, seed=seed, backend=backend, threads=threads))
    if name in ceiling_names(feedback):
        usual = _als_config({}, problem, feedback)
        return ceilings.fit_ceiling(
            name,
            problem,
            feedback=feedback,
            usual=replace(usual, seed=seed, backend=backend, threads=threads),
        )[0]
    return _fit_simple(name, problem, backend=backend)


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
        judged = judge_any(model, problem, part="test", pool=pool)
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
    usual = baselines.default_als(config.feedback, rating_range=problem.rating_range)
    backend = backend_of(config, problem, usual_rank=usual.rank)
    if isinstance(problem, StreamedProblem):
        references = StreamedReferences(problem, config.feedback, pool=pool)
        return references.fit(config.algorithm, backend=backend, settings=config.settings, seed=config.seed)
    return fit_reference(
        config.algorithm,
        problem,
        feedback=config.feedback,
        backend=backend,
        settings=config.settings,
        seed=config.seed,
        threads=config.run.workers,
    )


def _als_config(settings: Mapping[str, Any], problem: Problem, feedback: Feedback) -> baselines.AlsConfig:
    users = max(int((problem.train.counts > 0).sum()), 1)
    return als_config(
        settings,
        feedback,
        rating_range=problem.rating_range,
        size=(users, problem.train.n_items, problem.train.n_ratings),
    )


def _fit_simple(name: str, problem: Problem, *, backend: str) -> Predictor:
    train, scale = problem.train, problem.rating_range
    match name:
        case "item-mean":
            return baselines.fit_item_mean(train, rating_range=scale, backend=backend)
        case "user-item-bias":
            return baselines.fit_bias(train, baselines.BiasConfig(rating_range=scale, backend=backend))
        case "local-only":
            return baselines.LocalModel(n_items=train.n_items, rating_range=scale)
    return baselines.fit_popularity(train)
