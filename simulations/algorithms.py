"""The private algorithms by name: how each builds its task from a configuration and a budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.calibration import noise_multipliers
from fedboard.common.privacy.participation import stated_by_release
from fedboard.common.privacy.weights import WeightScheme
from fedboard.common.tasks import adadpals_config, residual_config
from fedboard.common.tasks.adadpals import AdaDpals
from fedboard.common.tasks.adadpals_config import AdaDpalsConfig, BudgetShares
from fedboard.common.tasks.residual import Residual
from fedboard.common.tasks.residual_config import ResidualConfig, ResidualShares
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.options import checked_options
from fedboard.simulations.participants import participation_of
from fedboard.simulations.presets import Preset, preset

WEIGHTS: Mapping[str, WeightScheme] = {
    "adadpals": WeightScheme.ADAPTIVE,
    "adadpals-clipped": WeightScheme.ADAPTIVE_CLIPPED,
    "adadpals-overcount": WeightScheme.ADAPTIVE_OVERCOUNT,
    "dpals-tail": WeightScheme.TAIL,
    "dpals-uniform": WeightScheme.UNIFORM,
}
"""Every algorithm of the AdaDPALS family is the same task with another weighting."""

PrivateTask: TypeAlias = AdaDpals | Residual


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedTask:
    """A task together with what calibration decided, for the record."""

    task: PrivateTask
    shares: Mapping[str, float]


def algorithm_names() -> tuple[str, ...]:
    """Names that ``--algorithm`` takes."""
    return (*WEIGHTS, Residual.NAME)


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


__all__ = ["WEIGHTS", "CalibratedTask", "PrivateTask", "algorithm_names", "build_task"]
