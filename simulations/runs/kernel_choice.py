"""Which kernels a run uses; and that they are compiled once, before anything waits for them."""

from collections.abc import Callable

from fedboard.common import kernels
from fedboard.common.kernels.backends import has_compiler, implementation
from fedboard.common.kernels.shared.compiled_code import compile_seconds, is_noted, note
from fedboard.common.tasks.shared.tuned import preset
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm
from fedboard.simulations.streams.problem import StreamedProblem

_USUAL_RANK = 8
_RATINGS_PER_ITEM = 2000


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


def compile_kernels(
    backend: str, *, features: bool = False, on_progress: Callable[[str, int, int], None]
) -> None:
    """Compile what a run will call, where that was never done on this machine; worker processes then find it.

    Args:
        backend: of the run.
        features: whether users' own models look at item features.
        on_progress: told ("compiling", seconds done, seconds in all) if and only if something has to be compiled;
            the seconds are those of an idle core of 2024.
    """
    seconds = compile_seconds(backend, features=features)
    if not seconds or not has_compiler() or is_noted(backend, features=features):
        return
    from fedboard.common.kernels.compiling import told_of_compiling  # takes numba half a second

    done, total, begun = 0.0, sum(seconds.values()), False

    def begin() -> None:
        nonlocal begun
        begun = True
        on_progress("compiling", round(done), round(total))

    with told_of_compiling(begin):
        for kernel, takes in seconds.items():
            implementation(backend, kernel)
            done += takes
            if begun:
                on_progress("compiling", round(done), round(total))
    note(backend, features=features)
