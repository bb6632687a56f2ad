"""From a simulation's configuration to its calibrated task."""

from fedboard.common.arrays import FloatArray
from fedboard.server.calibrating import CalibratedTask, Training, calibrated_task
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm


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
        features: public features of the items, float64, shape (n_items, n_features); for algorithms that use them.

    Raises:
        InputError: an unknown algorithm or setting, or a value out of its range.
    """
    return calibrated_task(training_of(config), rating_range=rating_range, backend=backend, features=features)


def training_of(config: SimulationConfig) -> Training:
    """What a configuration trains, and what that may cost.

    Raises:
        InputError: an unknown algorithm.
    """
    return Training(
        algorithm=chosen_algorithm(config.algorithm),
        feedback=config.feedback,
        promise=config.promise,
        settings=config.settings,
        shares=config.privacy.shares,
    )
