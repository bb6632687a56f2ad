"""Models without privacy that runs are held against: which there are, their settings, and fitting them.

Floors and ceilings by what a rating says; those with ``best`` in their names, and EASE, are honest ceilings: at
the best of a small grid, chosen on the validation part of the data. What a reference reaches at settings that were
tuned on another set says little: a private line above it would then be the reference's fault. Each parameter is
chosen in turn, from the middle of its grid.

One of your own is a ``Baseline`` that is named as ``path/to/file.py:NAME``, or brought by an installed package
under the entry points ``fedboard.baselines``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from fedboard.common.algorithms.shared.brought import entries_of, loaded
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.als import AlsConfig, default_als, fit_als, fit_als_by_sums
from fedboard.simulations.baselines.ease import fit_ease
from fedboard.simulations.baselines.means import (
    BiasConfig,
    LocalModel,
    Predictor,
    fit_bias,
    fit_item_mean,
    fit_popularity,
)
from fedboard.simulations.baselines.sums import TrainRows
from fedboard.simulations.engine.pool import JobRunner, WorkerPool
from fedboard.simulations.evaluation.evaluation import judge
from fedboard.simulations.evaluation.metrics.metric import Better
from fedboard.simulations.evaluation.metrics.registry import main_metric, metric_of
from fedboard.simulations.evaluation.split_blocks import StreamBlocks, span_bounds
from fedboard.simulations.own_code import is_own, own_object
from fedboard.simulations.problem import Problem, StreamedProblem

NO_PRIVACY = "no privacy"
"""The label of everything that is made here."""
ALS: Final = "als"
ENTRY_POINTS: Final = "fedboard.baselines"
"""Under which other packages bring theirs: each names a ``Baseline``."""
Grid = Mapping[str, Sequence[float]]
Choice = dict[str, float]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """What a model without privacy is fitted to, and how. Not private: simulation only."""

    problem: Problem | StreamedProblem
    rows: TrainRows
    """The training rows, in memory or a block at a time, with what is counted of all of them."""
    feedback: Feedback
    backend: str = "numpy"
    """Which kernels compute."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    """Of whatever is random."""
    threads: int = 1
    """Of fits in memory."""

    @staticmethod
    def of(
        problem: Problem | StreamedProblem,
        feedback: Feedback,
        *,
        pool: JobRunner | None = None,
        backend: str = "numpy",
        seed: int = 0,
        threads: int = 1,
    ) -> "Fitting":
        """To the training rows of a problem; what is counted of them is counted once for all models.

        Args:
            problem: the data. Private.
            feedback: what a rating says.
            pool: computes on a stream, where a job is a span of users; None: this process.
            backend: which kernels compute.
            seed: of the first factors of ``als``.
            threads: of ``als`` in memory.
        """
        if isinstance(problem, Problem):
            rows = TrainRows.of(problem.train)
        else:
            people = StreamBlocks(stream=problem.stream, splitting=problem.splitting)
            spans = span_bounds(people.n_users)
            rows = TrainRows(people.train, spans, n_items=people.n_items, pool=pool or WorkerPool(1))
        return Fitting(
            problem=problem, rows=rows, feedback=feedback, backend=backend, seed=seed, threads=threads
        )

    @property
    def rating_range(self) -> tuple[float, float]:
        """Lowest and highest rating. Public."""
        return self.problem.rating_range

    def held(self, name: str) -> Problem:
        """The problem, where its ratings are in memory.

        Raises:
            InputError: they are streamed.
        """
        if isinstance(self.problem, Problem):
            return self.problem
        raise InputError(
            f"{name} is chosen by fitting many candidates to ratings in memory, and these are streamed; take "
            f"{ALS}, or run it on a sample that fits into memory"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A model without privacy, as runs name it."""

    name: str
    feedback: frozenset[Feedback]
    """What it can be fitted to."""
    fit: Callable[[Fitting], Predictor]
    settings: tuple[str, ...] = ()
    """Names of those that it takes."""
    beside_runs: bool = False
    """Whether every run that asks for references is held against it."""


_EXPLICIT, _IMPLICIT = frozenset({Feedback.EXPLICIT}), frozenset({Feedback.IMPLICIT})
_EITHER = _EXPLICIT | _IMPLICIT
BIAS_BEST, ALS_BEST, EASE = "bias-best", "als-best", "ease"


def _als_config(fitting: Fitting) -> AlsConfig:
    """Tuned settings on other data, laid over by those that are given.

    Ratings are in the unit that the settings were tuned in, and a user's unobserved items together keep their
    weight relative to those that she has: otherwise the same number crushes models of large catalogues where people
    have few items.

    Raises:
        InputError: a setting of the wrong kind, or out of its range.
    """
    explicit, (low, high) = fitting.feedback is Feedback.EXPLICIT, fitting.rating_range
    tuned = default_als(fitting.feedback, rating_range=(low, high) if explicit else None)
    if explicit:
        tuned = replace(tuned, unit=(high - low) / _TUNED_WIDTH)
    else:
        counts = fitting.rows.counts
        weight = _TUNED_UNOBSERVED * counts.n_ratings / max(counts.n_active, 1) / counts.item_counts.size
        tuned = replace(tuned, unobserved_weight=min(max(weight, _LEAST_UNOBSERVED), 1.0))
    renamed = {"sweeps" if name == "rounds" else name: value for name, value in fitting.settings.items()}
    try:
        found = msgspec.convert({**msgspec.to_builtins(tuned), **renamed}, AlsConfig)
    except msgspec.ValidationError as error:
        raise InputError(f"settings of als: {error}") from error
    return replace(found, seed=fitting.seed, backend=fitting.backend, threads=fitting.threads)


_GRIDS: Mapping[tuple[str, Feedback], Grid] = {
    (BIAS_BEST, Feedback.EXPLICIT): {
        "item_ridge": (5.0, 1.0, 2.0, 10.0, 20.0),
        "user_ridge": (5.0, 2.0, 10.0),
    },
    (ALS_BEST, Feedback.EXPLICIT): {"ridge": (2.0, 0.5, 1.0, 4.0, 8.0, 16.0), "rank": (8, 2, 20)},
    (EASE, Feedback.IMPLICIT): {"ridge": (100.0, 30.0, 300.0, 1000.0)},
    (ALS_BEST, Feedback.IMPLICIT): {
        "ridge": (1.5, 0.5, 5.0),
        "unobserved": (1.0, 0.3, 4.0),
        "rank": (64, 32, 128),
    },
}
"""Factors of the usual settings, but for biases, EASE and ranks; of each the first is where the search begins."""


def fit_ceiling(name: str, fitting: Fitting) -> Predictor:
    """Fit every candidate to the training part and keep the one that is best on the validation part.

    Args:
        name: one of ``ceiling_names``.
        fitting: to what, and how.

    Returns:
        The model. Not private: simulation only.

    Raises:
        InputError: the ratings are streamed.
    """
    problem, usual = fitting.held(name), _als_config(fitting)

    def fit_one(choice: Choice) -> Predictor:
        if name == BIAS_BEST:
            return fit_bias(
                fitting.rows,
                BiasConfig(
                    rating_range=fitting.rating_range,
                    item_ridge=choice["item_ridge"],
                    user_ridge=choice["user_ridge"],
                ),
            )
        if name == EASE:
            return fit_ease(problem.train, ridge=choice["ridge"])
        changed = replace(
            usual,
            rank=int(choice["rank"]),
            user_ridge=usual.user_ridge * choice["ridge"],
            item_ridge=usual.item_ridge * choice["ridge"],
            unobserved_weight=usual.unobserved_weight * choice.get("unobserved", 1.0),
        )
        return fit_als(problem.train, changed)

    return search(fit_one, _GRIDS[name, fitting.feedback], problem, fitting.feedback)[0]


def search(
    fit: Callable[[Choice], Predictor], grid: Grid, problem: Problem, feedback: Feedback
) -> tuple[Predictor, Choice]:
    """One parameter after the other, each at the best of its values on the validation part; the others stay.

    Where nothing is held out for validation the first value of each is taken.
    """
    choice = {name: values[0] for name, values in grid.items()}
    model = fit(choice)
    with WorkerPool(1) as pool:
        best = _loss(model, problem, feedback, pool)
        if best is None:
            return model, choice
        for name, values in grid.items():
            for value in values[1:]:
                other = {**choice, name: value}
                candidate = fit(other)
                loss = _loss(candidate, problem, feedback, pool)
                if loss is not None and loss < best:
                    model, best, choice = candidate, loss, other
    return model, choice


def _loss(model: Predictor, problem: Problem, feedback: Feedback, pool: WorkerPool) -> float | None:
    """The metric that decides on the validation part, smaller is better; None where nothing is held out."""
    found = judge(model, problem, part="validation", pool=pool).metrics
    name = main_metric(feedback, "validation")
    metric = metric_of(name)
    if name not in found or metric is None:
        return None
    return found[name] if metric.better is Better.LOWER else -found[name]


def _fit_als(fitting: Fitting) -> Predictor:
    config = _als_config(fitting)
    if isinstance(fitting.problem, Problem):
        return fit_als(fitting.problem.train, config)
    return fit_als_by_sums(fitting.rows, config)


BASELINES: Final = (
    Baseline(
        name="item-mean",
        feedback=_EXPLICIT,
        fit=lambda to: fit_item_mean(to.rows, rating_range=to.rating_range),
        beside_runs=True,
    ),
    Baseline(
        name="user-item-bias",
        feedback=_EXPLICIT,
        fit=lambda to: fit_bias(to.rows, BiasConfig(rating_range=to.rating_range)),
        beside_runs=True,
    ),
    Baseline(
        name="local-only",
        feedback=_EXPLICIT,
        fit=lambda to: LocalModel(n_items=to.rows.n_items, rating_range=to.rating_range),
        beside_runs=True,
    ),
    Baseline(name="popularity", feedback=_IMPLICIT, fit=lambda to: fit_popularity(to.rows), beside_runs=True),
    Baseline(name=ALS, feedback=_EITHER, fit=_fit_als, settings=_ALS_SETTINGS, beside_runs=True),
    Baseline(name=BIAS_BEST, feedback=_EXPLICIT, fit=partial(fit_ceiling, BIAS_BEST)),
    Baseline(name=EASE, feedback=_IMPLICIT, fit=partial(fit_ceiling, EASE)),
    Baseline(name=ALS_BEST, feedback=_EITHER, fit=partial(fit_ceiling, ALS_BEST)),
)
"""Those of this package, simplest first; of each kind of feedback the first ceiling is the one to name."""


def reference_names(feedback: Feedback) -> tuple[str, ...]:
    """Names of the models without privacy that every run of this feedback is held against, simplest first."""
    return tuple(one.name for one in BASELINES if one.beside_runs and feedback in one.feedback)


def ceiling_names(feedback: Feedback) -> tuple[str, ...]:
    """Names of those that are fitted at the best of a small grid, chosen on validation data: slow, and honest."""
    return tuple(one.name for one in BASELINES if not one.beside_runs and feedback in one.feedback)


def every_reference() -> tuple[str, ...]:
    """Names of the models without privacy, whatever the feedback, with those that other packages bring."""
    names = [name for feedback in Feedback for name in (*reference_names(feedback), *ceiling_names(feedback))]
    return tuple(dict.fromkeys([*names, *entries_of(ENTRY_POINTS, entry_points)]))


def is_reference(algorithm: str) -> bool:
    """Whether this names a model without privacy: an installed one, or a ``Baseline`` in a file or module.

    Raises:
        InputError: the file or module cannot be loaded.
    """
    if is_own(algorithm):
        return isinstance(own_object(algorithm, "algorithm"), Baseline)
    return algorithm in every_reference()


def baseline_of(name: str) -> Baseline:
    """The model of a name, or that in a researcher's own file or module.

    Raises:
        InputError: there is none.
    """
    of_package = next((one for one in BASELINES if one.name == name), None)
    if of_package is not None:
        return of_package
    brought = entries_of(ENTRY_POINTS, entry_points)
    if is_own(name):
        found = own_object(name, "baseline")
    elif name in brought:
        found = loaded(brought[name], "baseline")
    else:
        raise InputError(
            f"there is no model {name!r} without privacy; there are {', '.join(every_reference())}"
        )
    if not isinstance(found, Baseline):
        raise InputError(
            f"baseline {name!r} must be a Baseline record, got {type(found).__name__}; see docs/guide/extending.md"
        )
    return found


def require_reference(name: str, feedback: Feedback, settings: Mapping[str, Any] | None = None) -> Baseline:
    """See that there is such a model with such settings.

    Raises:
        InputError: the model does not fit the feedback, or an unknown setting.
    """
    found = baseline_of(name)
    if feedback not in found.feedback:
        known_names = (*reference_names(feedback), *ceiling_names(feedback))
        raise InputError(
            f"{name!r} is not for {feedback} feedback; models without privacy there are {', '.join(known_names)}"
        )
    unknown = sorted(set(settings or {}) - set(found.settings))
    if unknown:
        known = f"known are {', '.join(found.settings)}" if found.settings else "it has none"
        raise InputError(f"settings: unknown key {unknown[0]!r} for {name}; {known}")
    return found


def fit_reference(name: str, fitting: Fitting, settings: Mapping[str, Any] | None = None) -> Predictor:
    """Fit one model.

    Args:
        name: as of ``baseline_of``.
        fitting: to what, and how.
        settings: of ``als``: rank, rounds and its ridges.

    Returns:
        The model. Not private: simulation only.

    Raises:
        InputError: the model does not fit the feedback, an unknown setting, or it needs everything in memory.
    """
    chosen = require_reference(name, fitting.feedback, settings)
    return chosen.fit(replace(fitting, settings=dict(settings or {})))
