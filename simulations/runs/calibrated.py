"""From a simulation's configuration to its data and its calibrated task: of ratings, or of examples."""

from typing import TypeAlias

from fedboard.common.algorithms.rebuilding import AnyTask
from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from fedboard.server.calibrating import (
    CalibratedTask,
    ExampleTraining,
    Training,
    calibrated_example_task,
    calibrated_task,
)
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.examples import ExampleProblem, load_examples, split_examples
from fedboard.simulations.evaluation.metrics.registry import metrics_of
from fedboard.simulations.own_code import is_own
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm, chosen_on_examples
from fedboard.simulations.runs.kernel_choice import backend_of
from fedboard.simulations.streams.problem import StreamedProblem, is_streamed, open_problem

AnyProblem: TypeAlias = Problem | StreamedProblem | ExampleProblem
"""Of any kind: of ratings that are held or that are streamed, or of examples."""


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
        recipe=config.recipe,
    )


def completed(config: SimulationConfig) -> SimulationConfig:
    """The same, of an algorithm of one's own on examples with what such a run decides.

    Raises:
        SettingError: something is asked of examples that only ratings have.
    """
    if is_own(config.algorithm) and chosen_on_examples(config.algorithm) is not None:
        config.require_examples()
    return config


def load_any(config: SimulationConfig) -> AnyProblem:
    """Load and split what the configuration names.

    Raises:
        InputError: the data cannot be read as they are, the split leaves nothing, or a metric of one's own
            cannot be loaded.
    """
    metrics_of(config.run.metrics)
    if chosen_on_examples(config.algorithm) is None:
        return open_problem(config) if is_streamed(config) else load_problem(config)
    if config.run.streamed:
        raise InputError(
            f"{config.algorithm} learns from examples, which are not streamed: leave out run.streamed"
        )
    name, table = load_examples(config.data.source, config.data.synthetic)
    split = config.split
    return split_examples(table, name, seed=split.seed, validation=split.validation, test=split.test)


def kernels_of(config: SimulationConfig, problem: AnyProblem) -> str:
    """Which kernels a run takes; of examples there is one version."""
    return "numpy" if isinstance(problem, ExampleProblem) else backend_of(config, problem)


def build_any(config: SimulationConfig, problem: AnyProblem, *, backend: str) -> AnyTask:
    """The calibrated task.

    Raises:
        InputError: an unknown setting, or a value out of its range.
    """
    if not isinstance(problem, ExampleProblem):
        return build_task(
            config, rating_range=problem.rating_range, backend=backend, features=problem.feature_values
        ).task
    algorithm = chosen_on_examples(config.algorithm)
    assert algorithm is not None  # the problem is of examples because it is
    training = ExampleTraining(
        algorithm=algorithm,
        promise=config.promise,
        settings=config.settings,
        shares=config.privacy.shares,
    )
    return calibrated_example_task(training)
