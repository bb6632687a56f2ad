"""Which kernels a run uses."""

from fedboard.common import kernels
from fedboard.common.tasks.shared.tuned import preset
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm

_USUAL_RANK = 8
_RATINGS_PER_ITEM = 2000


def backend_of(config: SimulationConfig, problem: Problem, *, usual_rank: int | None = None) -> str:
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
        tuned = preset(chosen_algorithm(config.algorithm), config.feedback, config.privacy.epsilon)
        usual_rank = tuned.settings.get("rank")
    rank = config.settings.get("rank", usual_rank)
    if not isinstance(rank, int) or rank < 1:  # not given, or refused where settings are checked
        rank = _USUAL_RANK
    return kernels.choose_backend(rank, _RATINGS_PER_ITEM * problem.catalogue.n_items)
