"""Which kernels a run uses; and that they are compiled once, before anything waits for them."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

from fedboard.common import kernels
from fedboard.common.algorithms.shared.tuned import preset
from fedboard.common.kernels.backends import FOR_FEATURES, KERNELS, has_compiler, implementation
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm, chosen_on_examples
from fedboard.simulations.streams.problem import StreamedProblem

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
