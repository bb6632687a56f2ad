"""From an algorithm, its settings and a budget to a task whose noise spends that budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedboard.common.algorithms.shared.algorithm import RatingTask, Variant
from fedboard.common.algorithms.shared.ratings_config import Feedback, checked_options, keys_of, with_noise
from fedboard.common.algorithms.shared.tuned import TUNED, Preset, preset
from fedboard.common.algorithms.supervised.examples import CohortTask, ExampleAlgorithm
from fedboard.common.arrays import FloatArray
from fedboard.common.contribution_bounding.participation import stated_by_release
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.server.run_spec import Promise


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained and what it may cost. Every field is public and was checked by whoever read it."""

    algorithm: Variant
    feedback: Feedback
    promise: Promise
    """Its seed is that of the first factors, and of what devices sample."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the algorithm's tuned defaults."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Overrides of how the budget is shared among its releases."""
    recipe: str = TUNED
    """Whose defaults they are laid over; ``recipes_of`` the algorithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedTask:
    """A task together with what calibration decided, for the record."""

    task: RatingTask
    shares: Mapping[str, float]


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
        features: public features of the items, float64, shape (n_items, n_features); for algorithms that use them.

    Raises:
        InputError: an unknown setting, a value out of its range, or feedback that it does not learn from.
    """
    algorithm, promise = training.algorithm.algorithm, training.promise
    settings = _settings(training, rating_range)
    by_release = algorithm.shares_by_release(settings, shares_of(training))

    def task_with(multipliers: Mapping[str, float]) -> RatingTask:
        calibrated = with_noise(settings, multipliers)
        return algorithm.task(calibrated, backend=backend, features=features)

    # Noise that spends the budget on these shares, given who takes part in the round of each release.
    plan = task_with(dict.fromkeys(by_release, 1.0)).plan()
    stated = stated_by_release(plan, promise.participation.chosen)
    multipliers = noise_multipliers(promise.epsilon, promise.delta, by_release, participation=stated.get)
    return CalibratedTask(task=task_with(multipliers), shares=by_release)


def shares_of(training: Training) -> Any:
    """How the budget is shared: the algorithm's own ``shares``, tuned defaults laid over by the training's.

    Raises:
        InputError: an unknown share, or one out of its range.
    """
    kind = training.algorithm.algorithm.shares
    return checked_options(training.shares, kind, "privacy.shares", defaults=_preset(training).shares)


def _preset(training: Training) -> Preset:
    return preset(
        training.algorithm,
        training.feedback,
        training.promise.epsilon,
        recipe=training.recipe,
        chosen=training.settings,
    )


def _settings(training: Training, rating_range: tuple[float, float]) -> Any:
    """The configuration without its noise: what is tuned, what is asked for, what the algorithm concludes."""
    algorithm, feedback = training.algorithm.algorithm, training.feedback
    if feedback not in algorithm.feedback:
        raise InputError(
            f"algorithm {training.algorithm.name!r} learns from {', '.join(sorted(algorithm.feedback))} feedback, "
            f"got {feedback}"
        )
    decided = {
        "feedback": feedback,
        "rating_low": rating_range[0],
        "rating_high": rating_range[1],
        "public_seed": training.promise.seed,
        "device_seed": training.promise.seed,
        "adjacency": training.promise.adjacency,
        "noise_multipliers": {},
        **training.algorithm.fixed,
    }
    known = keys_of(algorithm.settings)
    settings = checked_options(
        training.settings,
        algorithm.settings,
        "settings",
        defaults=_preset(training).settings,
        fixed={name: value for name, value in decided.items() if name in known},
    )
    if algorithm.complete is None:
        return settings
    mu = mu_for(training.promise.epsilon, training.promise.delta)
    return algorithm.complete(settings, given=training.settings.keys(), mu=mu)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleTraining:
    """What is trained on examples and what it may cost. Every field is public."""

    algorithm: ExampleAlgorithm
    promise: Promise
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the algorithm's defaults."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Overrides of how the budget is shared among its releases."""


def calibrated_example_task(training: ExampleTraining) -> CohortTask:
    """Defaults, laid over by the training's settings, with the noise that spends the budget.

    Raises:
        InputError: an unknown setting or share, or a value out of its range.
        PrivacyError: epsilon or delta is out of range.
    """
    algorithm, promise = training.algorithm, training.promise
    settings = checked_options(
        training.settings,
        algorithm.settings,
        "settings",
        fixed={"adjacency": promise.adjacency, "noise_multipliers": {}, **algorithm.fixed},
    )
    shares = checked_options(training.shares, algorithm.shares, "privacy.shares")
    by_release = algorithm.shares_by_release(settings, shares)

    def task_with(multipliers: Mapping[str, float]) -> CohortTask:
        return CohortTask(algorithm.task(replace(settings, noise_multipliers=multipliers)))

    # Noise that spends the budget on these shares, given who takes part in the round of each release.
    plan = task_with(dict.fromkeys(by_release, 1.0)).plan()
    stated = stated_by_release(plan, promise.participation.chosen)
    return task_with(noise_multipliers(promise.epsilon, promise.delta, by_release, participation=stated.get))
