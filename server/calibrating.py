"""The private algorithms by name: how each builds its task from its settings and a budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from fedboard.common.per_user.participation import FullParticipation, Participation, stated_by_release
from fedboard.common.per_user.weights import WeightScheme
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.tasks.adadpals import config as adadpals_config
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig, BudgetShares
from fedboard.common.tasks.adadpals.task import AdaDpals
from fedboard.common.tasks.adadpsgd import config as adadpsgd_config
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig, AdaDpsgdShares
from fedboard.common.tasks.adadpsgd.schedule import equal_step_count
from fedboard.common.tasks.adadpsgd.task import AdaDpsgd
from fedboard.common.tasks.langevin import config as langevin_config
from fedboard.common.tasks.langevin.config import LangevinConfig, LangevinShares
from fedboard.common.tasks.langevin.task import Langevin
from fedboard.common.tasks.presets import Preset, preset
from fedboard.common.tasks.residual import config as residual_config
from fedboard.common.tasks.residual.config import ResidualConfig, ResidualShares
from fedboard.common.tasks.residual.task import Residual
from fedboard.common.tasks.shared.options import checked_options
from fedboard.common.tasks.shared.ratings_config import Feedback

WEIGHTS: Mapping[str, WeightScheme] = {
    "adadpals": WeightScheme.ADAPTIVE,
    "adadpals-clipped": WeightScheme.ADAPTIVE_CLIPPED,
    "adadpals-overcount": WeightScheme.ADAPTIVE_OVERCOUNT,
    "dpals-tail": WeightScheme.TAIL,
    "dpals-uniform": WeightScheme.UNIFORM,
}
"""Every algorithm of the AdaDPALS family is the same task with another weighting."""

GRADIENT_WEIGHTS: Mapping[str, WeightScheme] = {
    "adadpsgd": WeightScheme.ADAPTIVE,
    "adadpsgd-clipped": WeightScheme.ADAPTIVE_CLIPPED,
    "adadpsgd-overcount": WeightScheme.ADAPTIVE_OVERCOUNT,
    "dpsgd-tail": WeightScheme.TAIL,
    "dpsgd-uniform": WeightScheme.UNIFORM,
}
"""The AdaDPSGD family, likewise."""

MOST_STEPS = 200
"""The theorem asks for thousands where there are many users; more than this change little."""

PrivateTask: TypeAlias = AdaDpals | AdaDpsgd | Langevin | Residual


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained and what it may cost. Every field is public and was checked by whoever read it."""

    algorithm: str
    """By name, see ``algorithm_names``."""
    feedback: Feedback
    seed: int
    """Of the first factors, and of what devices sample; >= 0."""
    epsilon: float
    delta: float
    adjacency: Adjacency
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the algorithm's tuned defaults."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Overrides of how the budget is shared among its releases."""
    participation: Participation = field(default_factory=FullParticipation)
    """Who takes part in a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedTask:
    """A task together with what calibration decided, for the record."""

    task: PrivateTask
    shares: Mapping[str, float]


def algorithm_names(feedback: Feedback | None = None) -> tuple[str, ...]:
    """Names that ``--algorithm`` takes: all, or those for one kind of feedback."""
    explicit = () if feedback is Feedback.IMPLICIT else (Langevin.NAME,)
    return (*WEIGHTS, *GRADIENT_WEIGHTS, *explicit, Residual.NAME)


def calibrated_task(
    training: Training,
    *,
    rating_range: tuple[float, float],
    backend: str,
    features: FloatArray | None = None,
) -> CalibratedTask:
    """Tuned defaults, laid over by the training's settings, calibrated to the budget.

    Args:
        training: names the algorithm.
        rating_range: public.
        backend: which kernels compute.
        features: public features of the items, float64, shape (n_items, n_features); used by ``residual`` alone.

    Raises:
        InputError: an unknown algorithm or setting, or a value out of its range.
    """
    if training.algorithm not in algorithm_names():
        raise InputError(
            f"algorithm must be one of {', '.join(algorithm_names())}, got {training.algorithm!r}"
        )
    tuned = preset(training.algorithm, training.feedback, training.epsilon)
    fixed = {
        "feedback": training.feedback,
        "rating_low": rating_range[0],
        "rating_high": rating_range[1],
        "public_seed": training.seed,
        "adjacency": training.adjacency,
        "noise_multipliers": {},
    }
    if training.algorithm == Residual.NAME:
        return _residual(training, tuned, fixed, backend=backend, features=features)
    if training.algorithm == Langevin.NAME:
        return _langevin(training, tuned, fixed, backend=backend)
    if training.algorithm in GRADIENT_WEIGHTS:
        return _adadpsgd(training, tuned, fixed, backend=backend)
    return _adadpals(training, tuned, fixed, backend=backend)


def _adadpals(training: Training, tuned: Preset, fixed: Mapping[str, Any], *, backend: str) -> CalibratedTask:
    fixed = {**fixed, "weights": WEIGHTS[training.algorithm], "device_seed": training.seed}
    settings = checked_options(
        training.settings, AdaDpalsConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    shares = checked_options(training.shares, BudgetShares, "privacy.shares", defaults=tuned.shares)
    by_release = adadpals_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> AdaDpals:
        return AdaDpals(replace(settings, noise_multipliers=multipliers), backend=backend)

    return _calibrated(training, by_release, task_with)


def _adadpsgd(training: Training, tuned: Preset, fixed: Mapping[str, Any], *, backend: str) -> CalibratedTask:
    fixed = {**fixed, "weights": GRADIENT_WEIGHTS[training.algorithm], "device_seed": training.seed}
    settings = checked_options(
        training.settings, AdaDpsgdConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    if "steps" not in training.settings:
        settings = _with_steps_of_theorem(settings, training)
    shares = checked_options(training.shares, AdaDpsgdShares, "privacy.shares", defaults=tuned.shares)
    by_release = adadpsgd_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> AdaDpsgd:
        return AdaDpsgd(replace(settings, noise_multipliers=multipliers), backend=backend)

    return _calibrated(training, by_release, task_with)


def _with_steps_of_theorem(settings: AdaDpsgdConfig, training: Training) -> AdaDpsgdConfig:
    """The step count of theorem 3.12 where the sizes that it needs were guessed; a plan may not look at data."""
    if settings.ratings_per_item is None or settings.ratings_per_user is None:
        return settings
    wanted = equal_step_count(
        mu_for(training.epsilon, training.delta),
        settings.rank,
        ratings_per_item=settings.ratings_per_item,
        ratings_per_user=settings.ratings_per_user,
    )
    return replace(settings, steps=max(1, min(round(wanted), MOST_STEPS)))


def _residual(
    training: Training,
    tuned: Preset,
    fixed: Mapping[str, Any],
    *,
    backend: str,
    features: FloatArray | None,
) -> CalibratedTask:
    settings = checked_options(
        training.settings, ResidualConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    shares = checked_options(training.shares, ResidualShares, "privacy.shares", defaults=tuned.shares)
    by_release = residual_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> Residual:
        return Residual(replace(settings, noise_multipliers=multipliers), backend=backend, features=features)

    return _calibrated(training, by_release, task_with)


def _langevin(training: Training, tuned: Preset, fixed: Mapping[str, Any], *, backend: str) -> CalibratedTask:
    fixed = {**fixed, "device_seed": training.seed}
    settings = checked_options(
        training.settings, LangevinConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    shares = checked_options(training.shares, LangevinShares, "privacy.shares", defaults=tuned.shares)
    by_release = langevin_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> Langevin:
        return Langevin(replace(settings, noise_multipliers=multipliers), backend=backend)

    return _calibrated(training, by_release, task_with)


def _calibrated(
    training: Training,
    shares: Mapping[str, float],
    task_with: Callable[[Mapping[str, float]], PrivateTask],
) -> CalibratedTask:
    """Noise that spends the budget on these shares, given who takes part in the round of each release."""
    rounds = task_with(dict.fromkeys(shares, 1.0)).plan()
    stated = stated_by_release(rounds, training.participation)
    multipliers = noise_multipliers(training.epsilon, training.delta, shares, participation=stated.get)
    return CalibratedTask(task=task_with(multipliers), shares=shares)


__all__ = [
    "GRADIENT_WEIGHTS",
    "WEIGHTS",
    "CalibratedTask",
    "PrivateTask",
    "Training",
    "algorithm_names",
    "calibrated_task",
]
