"""The private algorithms by name: how each builds its task from a configuration and a budget."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fedboard.common.errors import InputError
from fedboard.common.privacy.calibration import noise_multipliers
from fedboard.common.privacy.weights import WeightScheme
from fedboard.common.tasks.adadpals import AdaDpals
from fedboard.common.tasks.adadpals_config import AdaDpalsConfig, BudgetShares, shares_by_release
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.options import checked_options
from fedboard.simulations.presets import preset

WEIGHTS: Mapping[str, WeightScheme] = {
    "adadpals": WeightScheme.ADAPTIVE,
    "adadpals-clipped": WeightScheme.ADAPTIVE_CLIPPED,
    "adadpals-overcount": WeightScheme.ADAPTIVE_OVERCOUNT,
    "dpals-tail": WeightScheme.TAIL,
    "dpals-uniform": WeightScheme.UNIFORM,
}
"""Every algorithm of the AdaDPALS family is the same task with another weighting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedTask:
    """A task together with what calibration decided, for the record."""

    task: AdaDpals
    shares: Mapping[str, float]


def algorithm_names() -> tuple[str, ...]:
    """Names that ``--algorithm`` takes."""
    return tuple(WEIGHTS)


def build_task(
    config: SimulationConfig, *, rating_range: tuple[float, float], backend: str
) -> CalibratedTask:
    """Tuned defaults, laid over by the configuration's settings, calibrated to the budget.

    Raises:
        InputError: an unknown algorithm or setting, or a value out of its range.
    """
    if config.algorithm not in WEIGHTS:
        raise InputError(f"algorithm must be one of {', '.join(WEIGHTS)}, got {config.algorithm!r}")
    tuned = preset(config.algorithm, config.feedback, config.privacy.epsilon)
    fixed = {
        "feedback": config.feedback,
        "rating_low": rating_range[0],
        "rating_high": rating_range[1],
        "weights": WEIGHTS[config.algorithm],
        "public_seed": config.seed,
        "device_seed": config.seed,
        "adjacency": config.privacy.adjacency,
        "noise_multipliers": {},
    }
    settings = checked_options(
        config.settings, AdaDpalsConfig, "settings", defaults=tuned.settings, fixed=fixed
    )
    shares = checked_options(config.privacy.shares, BudgetShares, "privacy.shares", defaults=tuned.shares)
    by_release = shares_by_release(settings, shares)
    multipliers = noise_multipliers(config.privacy.epsilon, config.privacy.delta, by_release)
    return CalibratedTask(
        task=AdaDpals(replace(settings, noise_multipliers=multipliers), backend=backend), shares=by_release
    )


__all__ = ["WEIGHTS", "CalibratedTask", "algorithm_names", "build_task"]
