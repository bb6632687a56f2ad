"""Honest ceilings: models without privacy at the best of a small grid, chosen on the validation part of the data.

What a reference reaches at settings that were tuned on another set says little: a private line above it would then
be the reference's fault. Each parameter is chosen in turn, from the middle of its grid.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.baselines import (
    AlsConfig,
    BiasConfig,
    Predictor,
    fit_als,
    fit_bias,
    fit_ease,
)
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.judging.evaluation import judge
from fedboard.simulations.judging.metrics.metric import Better
from fedboard.simulations.judging.metrics.registry import main_metric, metric_of
from fedboard.simulations.problem import Problem

BIAS, ALS, EASE = "bias-best", "als-best", "ease"
BY_FEEDBACK: Mapping[Feedback, tuple[str, ...]] = {
    Feedback.EXPLICIT: (BIAS, ALS),
    Feedback.IMPLICIT: (EASE, ALS),
}
Grid = Mapping[str, Sequence[float]]
Choice = dict[str, float]
_GRIDS: Mapping[tuple[str, Feedback], Grid] = {
    (BIAS, Feedback.EXPLICIT): {"item_ridge": (5.0, 1.0, 2.0, 10.0, 20.0), "user_ridge": (5.0, 2.0, 10.0)},
    (ALS, Feedback.EXPLICIT): {"ridge": (2.0, 0.5, 1.0, 4.0, 8.0, 16.0), "rank": (8, 2, 20)},
    (EASE, Feedback.IMPLICIT): {"ridge": (100.0, 30.0, 300.0, 1000.0)},
    (ALS, Feedback.IMPLICIT): {
        "ridge": (1.5, 0.5, 5.0),
        "unobserved": (1.0, 0.3, 4.0),
        "rank": (64, 32, 128),
    },
}
"""Factors of the usual settings, but for biases, EASE and ranks; of each the first is where the search begins."""


def fit_ceiling(
    name: str, problem: Problem, *, feedback: Feedback, usual: AlsConfig
) -> tuple[Predictor, Choice]:
    """Fit every candidate to the training part and keep the one that is best on the validation part.

    Args:
        name: one of ``BY_FEEDBACK``.
        problem: the data. Private.
        feedback: what a rating says.
        usual: of ``als`` on these data.

    Returns:
        The model, and what was chosen. Not private: simulation only.
    """

    def fit(choice: Choice) -> Predictor:
        return _fit(name, choice, problem, usual)

    return search(fit, _GRIDS[name, feedback], problem, feedback)


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


def _fit(name: str, choice: Choice, problem: Problem, usual: AlsConfig) -> Predictor:
    train = problem.train
    if name == BIAS:
        return fit_bias(
            train,
            BiasConfig(
                rating_range=problem.rating_range,
                item_ridge=choice["item_ridge"],
                user_ridge=choice["user_ridge"],
                backend=usual.backend,
            ),
        )
    if name == EASE:
        return fit_ease(train, ridge=choice["ridge"])
    changed = replace(
        usual,
        rank=int(choice["rank"]),
        user_ridge=usual.user_ridge * choice["ridge"],
        item_ridge=usual.item_ridge * choice["ridge"],
    )
    if "unobserved" in choice:
        changed = replace(changed, unobserved_weight=usual.unobserved_weight * choice["unobserved"])
    return fit_als(train, changed)
