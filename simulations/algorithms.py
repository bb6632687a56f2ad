"""The private algorithms by name: how each builds its task from a configuration and a budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from fedboard.common.per_user.participation import stated_by_release
from fedboard.common.per_user.weights import WeightScheme
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.tasks.adadpals import config as adadpals_config
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig, BudgetShares, Feedback
from fedboard.common.tasks.adadpals.task import AdaDpals
from fedboard.common.tasks.adadpsgd import config as adadpsgd_config
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig, AdaDpsgdShares
from fedboard.common.tasks.adadpsgd.schedule import equal_step_count
from fedboard.common.tasks.adadpsgd.task import AdaDpsgd
from fedboard.common.tasks.langevin import config as langevin_config
from fedboard.common.tasks.langevin.config import LangevinConfig, LangevinShares
from fedboard.common.tasks.langevin.task import Langevin
from fedboard.common.tasks.residual import config as residual_config
from fedboard.common.tasks.residual.config import ResidualConfig, ResidualShares
from fedboard.common.tasks.residual.task import Residual
from fedboard.simulations.config import PrivacyConfig, SimulationConfig
from fedboard.simulations.options import checked_options
from fedboard.simulations.presets import Preset, preset
from fedboard.simulations.runs.participants import participation_of

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
class CalibratedTask:
    """A task together with what calibration decided, for the record."""

    task: PrivateTask
    shares: Mapping[str, float]


def algorithm_names(feedback: Feedback | None = None) -> tuple[str, ...]:
    """Names that ``--algorithm`` takes: all, or those for one kind of feedback."""
    explicit = () if feedback is Feedback.IMPLICIT else (Langevin.NAME,)
    return (*WEIGHTS, *GRADIENT_WEIGHTS, *explicit, Residual.NAME)


def build_task(
    config: SimulationConfig,
    *,
    rating_range: tuple[float, float],
    backend: str,
    features: FloatArray | None = None,
) -> CalibratedTask:
    """Tuned defaults, laid over by the configuration's settings, calibrated to the budget.

    Args:
        config: names the algorithm.
        rating_range: public.
        backend: which kernels compute.
        features: public features of the items, float64, shape (n_items, n_features); used by ``residual`` alone.

    Raises:
        InputError: an unknown algorithm or setting, or a value out of its range.
    """
    if config.algorithm not in algorithm_names():
        raise InputError(f"algorithm must be one of {', '.join(algorithm_names())}, got {config.algorithm!r}")
    tuned = preset(config.algorithm, config.feedback, config.privacy.epsilon)
    fixed = {
        "feedback": config.feedback,
        "rating_low": rating_range[0],
        "rating_high": rating_range[1],
        "public_seed": config.seed,
        "adjacency": config.privacy.adjacency,
        "noise_multipliers": {},
    }
    if config.algorithm == Residual.NAME:
        return _residual(config, tuned, fixed, backend=backend, features=features)
    if config.algorithm == Langevin.NAME:
        return _langevin(config, tuned, fixed, backend=backend)
    if config.algorithm in GRADIENT_WEIGHTS:
        return _adadpsgd(config, tuned, fixed, backend=backend)
    return _adadpals(config, tuned, fixed, backend=backend)


def _adadpals(
    config: SimulationConfig, tuned: Preset, fixed: Mapping[str, Any], *, backend: str
) -> CalibratedTask:
    fixed = {**fixed, "weights": WEIGHTS[config.algorithm], "device_seed": config.seed}
    settings = checked_options(
        config.settings, AdaDpalsConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    shares = checked_options(config.privacy.shares, BudgetShares, "privacy.shares", defaults=tuned.shares)
    by_release = adadpals_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> AdaDpals:
        return AdaDpals(replace(settings, noise_multipliers=multipliers), backend=backend)

    return _calibrated(config, by_release, task_with)


def _adadpsgd(
    config: SimulationConfig, tuned: Preset, fixed: Mapping[str, Any], *, backend: str
) -> CalibratedTask:
    fixed = {**fixed, "weights": GRADIENT_WEIGHTS[config.algorithm], "device_seed": config.seed}
    settings = checked_options(
        config.settings, AdaDpsgdConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    if "steps" not in config.settings:
        settings = _with_steps_of_theorem(settings, config.privacy)
    shares = checked_options(config.privacy.shares, AdaDpsgdShares, "privacy.shares", defaults=tuned.shares)
    by_release = adadpsgd_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> AdaDpsgd:
        return AdaDpsgd(replace(settings, noise_multipliers=multipliers), backend=backend)

    return _calibrated(config, by_release, task_with)


def _with_steps_of_theorem(settings: AdaDpsgdConfig, privacy: PrivacyConfig) -> AdaDpsgdConfig:
    """The step count of theorem 3.12 where the sizes that it needs were guessed; a plan may not look at data."""
    if settings.ratings_per_item is None or settings.ratings_per_user is None:
        return settings
    wanted = equal_step_count(
        mu_for(privacy.epsilon, privacy.delta),
        settings.rank,
        ratings_per_item=settings.ratings_per_item,
        ratings_per_user=settings.ratings_per_user,
    )
    return replace(settings, steps=max(1, min(round(wanted), MOST_STEPS)))


def _residual(
    config: SimulationConfig,
    tuned: Preset,
    fixed: Mapping[str, Any],
    *,
    backend: str,
    features: FloatArray | None,
) -> CalibratedTask:
    settings = checked_options(
        config.settings, ResidualConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    shares = checked_options(config.privacy.shares, ResidualShares, "privacy.shares", defaults=tuned.shares)
    by_release = residual_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> Residual:
        return Residual(replace(settings, noise_multipliers=multipliers), backend=backend, features=features)

    return _calibrated(config, by_release, task_with)


def _langevin(
    config: SimulationConfig, tuned: Preset, fixed: Mapping[str, Any], *, backend: str
) -> CalibratedTask:
    fixed = {**fixed, "device_seed": config.seed}
    settings = checked_options(
        config.settings, LangevinConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    shares = checked_options(config.privacy.shares, LangevinShares, "privacy.shares", defaults=tuned.shares)
    by_release = langevin_config.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> Langevin:
        return Langevin(replace(settings, noise_multipliers=multipliers), backend=backend)

    return _calibrated(config, by_release, task_with)


def _calibrated(
    config: SimulationConfig,
    shares: Mapping[str, float],
    task_with: Callable[[Mapping[str, float]], PrivateTask],
) -> CalibratedTask:
    """Noise that spends the budget on these shares, given who takes part in the round of each release."""
    rounds = task_with(dict.fromkeys(shares, 1.0)).plan()
    stated = stated_by_release(rounds, participation_of(config.privacy.participation))
    multipliers = noise_multipliers(
        config.privacy.epsilon, config.privacy.delta, shares, participation=stated.get
    )
    return CalibratedTask(task=task_with(multipliers), shares=shares)


__all__ = ["GRADIENT_WEIGHTS", "WEIGHTS", "CalibratedTask", "PrivateTask", "algorithm_names", "build_task"]
