"""Models without any privacy, run like the private ones so that their numbers can be laid side by side."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import USUAL
from fedboard.common.tasks.on_examples.registry import EXAMPLE_ALGORITHMS, learns_from_examples
from fedboard.common.tasks.registry import algorithm_names
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations import baselines
from fedboard.simulations.baselines import Predictor
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.engine.own_code import is_own
from fedboard.simulations.judging import ceilings
from fedboard.simulations.judging.evaluation import judge
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.runs.kernel_choice import backend_of

NO_PRIVACY = "no privacy"
"""The label of everything that is made here."""
ALS = "als"
_BY_FEEDBACK: Mapping[Feedback, tuple[str, ...]] = {
    Feedback.EXPLICIT: ("item-mean", "user-item-bias", "local-only", ALS),
    Feedback.IMPLICIT: ("popularity", ALS),
}
_TUNED_WIDTH = 4.0
"""Of the range of the ratings that explicit ALS was tuned on."""
_TUNED_UNOBSERVED = 10.9
"""Weight of all unobserved items of a user over that of those she has, where implicit ALS was tuned: 0.3 x 3 449
items over 95."""
_LEAST_UNOBSERVED = 1e-4
_ALS_SETTINGS = (
    "item_ridge",
    "item_ridge_exponent",
    "rank",
    "rounds",
    "unobserved_weight",
    "user_ridge",
    "user_ridge_exponent",
)


def reference_names(feedback: Feedback) -> tuple[str, ...]:
    """Names of the models without privacy that fit this feedback, simplest first."""
    return _BY_FEEDBACK[feedback]


def ceiling_names(feedback: Feedback) -> tuple[str, ...]:
    """Names of those that are fitted at the best of a small grid, chosen on validation data: slow, and honest."""
    return ceilings.BY_FEEDBACK[feedback]


def every_reference() -> tuple[str, ...]:
    """Names of the models without privacy, whatever the feedback."""
    names = [name for feedback in Feedback for name in (*_BY_FEEDBACK[feedback], *ceiling_names(feedback))]
    return tuple(dict.fromkeys(names))


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
        chosen_algorithm(config.algorithm)
    elif config.algorithm not in algorithm_names() and not learns_from_examples(config.algorithm):
        known = (*algorithm_names(), *every_reference(), *EXAMPLE_ALGORITHMS)
        raise InputError(
            f"algorithm must be one of {', '.join(algorithm_names())}, or without privacy one of "
            f"{', '.join(every_reference())}, or on examples one of {', '.join(EXAMPLE_ALGORITHMS)}, or your own "
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
    known_names = (*reference_names(feedback), *ceiling_names(feedback))
    if name not in known_names:
        raise InputError(
            f"{name!r} is not for {feedback} feedback; models without privacy there are {', '.join(known_names)}"
        )
    chosen = dict(settings or {})
    unknown = sorted(set(chosen) - set(_ALS_SETTINGS if name == ALS else ()))
    if unknown:
        known = f"known are {', '.join(_ALS_SETTINGS)}" if name == ALS else "it has none"
        raise InputError(f"settings: unknown key {unknown[0]!r} for {name}; {known}")
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
    return _fit_simple(name, problem)


def run_reference(
    config: SimulationConfig, out: Path, *, resume: bool = False, problem: Problem | None = None
) -> dict[str, Any]:
    """Fit and judge one model without privacy: metrics only, no board, no ledger, no certificate.

    Args:
        config: what to run; its privacy section is not used.
        out: the run's directory; gets config.json and metrics.jsonl.
        resume: a finished run is read, an unfinished one is run again.
        problem: what ``load_problem(config)`` gave, where many runs share it.

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
    problem = problem or load_problem(config)
    model = fit_reference(
        config.algorithm,
        problem,
        feedback=config.feedback,
        backend=backend_of(config, problem, usual_rank=_als_config({}, problem, config.feedback).rank),
        settings=config.settings,
        seed=config.seed,
        threads=config.run.workers,
    )
    with WorkerPool(config.run.workers, compiled=config.run.kernels != "numpy") as pool:
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


def _als_config(settings: Mapping[str, Any], problem: Problem, feedback: Feedback) -> baselines.AlsConfig:
    explicit = feedback is Feedback.EXPLICIT
    tuned = baselines.default_als(feedback, rating_range=problem.rating_range if explicit else None)
    tuned = _scaled(tuned, problem)
    renamed = {"sweeps" if name == "rounds" else name: value for name, value in settings.items()}
    try:
        return msgspec.convert({**msgspec.to_builtins(tuned), **renamed}, baselines.AlsConfig)
    except msgspec.ValidationError as error:
        raise InputError(f"settings of als: {error}") from error


def _scaled(tuned: baselines.AlsConfig, problem: Problem) -> baselines.AlsConfig:
    """Tuned settings on other data: ratings in the unit they were tuned in, unobserved items in the catalogue's.

    A user's unobserved items together keep their weight relative to those that she has: otherwise the same number
    crushes models of large catalogues where people have few items.
    """
    if tuned.feedback is Feedback.EXPLICIT:
        low, high = problem.rating_range
        return replace(tuned, unit=(high - low) / _TUNED_WIDTH)
    users = max(int((problem.train.counts > 0).sum()), 1)
    weight = _TUNED_UNOBSERVED * problem.train.n_ratings / users / problem.train.n_items
    return replace(tuned, unobserved_weight=min(max(weight, _LEAST_UNOBSERVED), 1.0))


def _fit_simple(name: str, problem: Problem) -> Predictor:
    train, scale = problem.train, problem.rating_range
    match name:
        case "item-mean":
            return baselines.fit_item_mean(train, rating_range=scale)
        case "user-item-bias":
            return baselines.fit_bias(train, baselines.BiasConfig(rating_range=scale))
        case "local-only":
            return baselines.LocalModel(n_items=train.n_items, rating_range=scale)
    return baselines.fit_popularity(train)
