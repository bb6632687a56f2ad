"""From a simulation's configuration to its algorithm, its kernels, its data and its calibrated task."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from fedboard.common import kernels
from fedboard.common.algorithms.registry import (
    AnyTask,
    algorithm_names,
    example_algorithm_names,
    example_algorithm_of,
    learns_from_examples,
    variant_of,
)
from fedboard.common.algorithms.shared.algorithm import Algorithm, Variant
from fedboard.common.algorithms.shared.tuned import preset
from fedboard.common.algorithms.supervised.examples import ExampleAlgorithm
from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import FOR_FEATURES, KERNELS, has_compiler, implementation
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
from fedboard.simulations.own_code import is_own, own_object
from fedboard.simulations.problem import Problem, StreamedProblem, is_streamed, load_problem, open_problem

_USUAL_RECORD = "ALGORITHM"


def chosen_algorithm(choice: str) -> Variant:
    """The algorithm of a run.

    Args:
        choice: a registered name, ``package.module:RECORD`` or ``path/to/file.py:RECORD``, whose code then runs.

    Raises:
        InputError: there is none, it is no record, or its name belongs to an algorithm that is installed: boards
            state the name, and devices would take it for that one.
    """
    if not is_own(choice):
        return variant_of(choice)
    found = own_object(choice, "algorithm")
    if not isinstance(found, Algorithm):
        place, _, name = choice.rpartition(":")
        raise InputError(
            f"algorithm {choice!r}: {name!r} in {place} must be an Algorithm record, "
            f"got {type(found).__name__}; see docs/guide/extending.md"
        )
    _require_new(found.name, choice)
    return found.variant()


def chosen_on_examples(choice: str) -> ExampleAlgorithm | None:
    """The algorithm on examples of a run; None where the choice is none on examples.

    Args:
        choice: as for ``chosen_algorithm``.

    Raises:
        InputError: one's own has the name of one that is installed.
    """
    if not is_own(choice):
        return example_algorithm_of(choice) if learns_from_examples(choice) else None
    found = own_object(choice, "algorithm")
    if not isinstance(found, ExampleAlgorithm):
        return None
    _require_new(found.name, choice)
    return found


def any_algorithm(choice: str) -> Variant | ExampleAlgorithm:
    """The algorithm of a run, on ratings or on examples.

    Raises:
        InputError: there is none.
    """
    return chosen_on_examples(choice) or chosen_algorithm(choice)


def loading_of(choice: str) -> Callable[[], object] | None:
    """What a worker process runs before it is sent a task of this algorithm; None where nothing is needed."""
    return partial(any_algorithm, choice) if is_own(choice) else None


def _require_new(name: str, choice: str) -> None:
    if name in (*algorithm_names(), *example_algorithm_names()):
        raise InputError(
            f"algorithm {choice!r} has the name {name!r} of an installed one; give it a name of its own"
        )


def label_of(choice: str) -> str:
    """What tables, figures and folders call it: the name, or that of the file."""
    if not is_own(choice):
        return choice
    place, _, record = choice.rpartition(":")
    stem = Path(place).stem if place.endswith(".py") else place
    return stem if record == _USUAL_RECORD else f"{stem}-{record}"


_USUAL_RANK = 8
_RATINGS_PER_ITEM = 2000
_COMPILE: Final = """
import sys
from fedboard.common.kernels.backends import implementation

for name in sys.argv[2:]:
    implementation(sys.argv[1], name)
"""


def backend_of(
    config: SimulationConfig, problem: Problem | StreamedProblem, *, usual_rank: int | None = None
) -> str:
    """The kernels that the configuration names, or the likely quickest for this rank and catalogue.

    The number of ratings would tell better, but it is private, and kernels differ in the last bit of a user's
    vector: a choice that depends on it would let one user move everybody's contribution.

    Args:
        config: says what is learnt.
        problem: its catalogue alone is looked at.
        usual_rank: where the settings have none; None for what the algorithm is tuned at.
    """
    if config.run.kernels != "auto":
        return config.run.kernels
    if usual_rank is None:
        algorithm = chosen_algorithm(config.algorithm)
        tuned = preset(algorithm, config.feedback, config.privacy.epsilon, recipe=config.recipe)
        usual_rank = tuned.settings.get("rank")
    rank = config.settings.get("rank", usual_rank)
    if not isinstance(rank, int) or rank < 1:  # not given, or refused where settings are checked
        rank = _USUAL_RANK
    return kernels.choose_backend(rank, _RATINGS_PER_ITEM * problem.catalogue.n_items)


def never_called(algorithm: str) -> frozenset[str]:
    """The kernels that no run of this algorithm calls, as far as it says."""
    if chosen_on_examples(algorithm) is not None:
        return frozenset()
    return chosen_algorithm(algorithm).algorithm.not_called


def compile_kernels(
    backend: str,
    *,
    features: bool = False,
    not_called: frozenset[str] = frozenset(),
    on_progress: Callable[[str, int, int], None],
) -> None:
    """Compile what a run will call, where that was never done on this machine; worker processes then find it.

    Where there are two cores, another process begins at the other end meanwhile; each finds what the other made.

    Args:
        backend: of the run.
        features: whether users' own models look at item features.
        not_called: kernels that the run's algorithm never calls.
        on_progress: told ("compiling", kernels done, kernels in all) if and only if something has to be compiled.
    """
    if backend != "compiled" or not has_compiler():
        return
    from fedboard.common.kernels.compiling import is_kept, told_of_compiling  # takes numba half a second

    names = [name for name in KERNELS if name not in not_called and (features or name not in FOR_FEATURES)]
    begun = False
    helpers: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        nonlocal begun
        begun = True
        on_progress("compiling", 0, len(names))
        if is_kept() and _has_another_core():
            helpers.append(_compiling(backend, names[::-1]))

    with told_of_compiling(begin):
        for done, name in enumerate(names, start=1):
            implementation(backend, name)
            if begun:
                on_progress("compiling", done, len(names))
    for helper in helpers:
        helper.wait()


def _has_another_core() -> bool:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and bool(sys.executable)


def _compiling(backend: str, names: Sequence[str]) -> "subprocess.Popen[bytes]":
    """A process that compiles these kernels and finds the packages that this one finds."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}
    silent = subprocess.DEVNULL
    command = [sys.executable, "-c", _COMPILE, backend, *names]
    return subprocess.Popen(command, env=os.environ | path, stdin=silent, stdout=silent, stderr=silent)


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


def load_any(config: SimulationConfig) -> AnyProblem:
    """Load and split what the configuration names.

    Raises:
        InputError: the data cannot be read as they are, the split leaves nothing, or a metric of one's own
            cannot be loaded.
        SettingError: something is asked of examples that only ratings have.
    """
    metrics_of(config.run.metrics)
    if chosen_on_examples(config.algorithm) is None:
        return open_problem(config) if is_streamed(config) else load_problem(config)
    config.require_examples()  # of an algorithm of one's own nobody knew it before
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
