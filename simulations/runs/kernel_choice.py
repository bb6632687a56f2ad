"""Which kernels a run uses."""

from fedboard.common import kernels
from fedboard.common.tasks.presets import preset
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem

_USUAL_RANK = 8
_RATINGS_PER_ITEM = 2000


def backend_of(config: SimulationConfig, problem: Problem) -> str:
    """The kernels that the configuration names, or the likely quickest for this rank and catalogue.

    The number of ratings would tell better, but it is private, and kernels differ in the last bit of a user's
    vector: a choice that depends on it would let one user move everybody's contribution.
    """
    if config.run.kernels != "auto":
        return config.run.kernels
    tuned = preset(config.algorithm, config.feedback, config.privacy.epsilon).settings
    rank = config.settings.get("rank", tuned.get("rank"))
    if not isinstance(rank, int) or rank < 1:  # not given, or refused where settings are checked
        rank = _USUAL_RANK
    return kernels.choose_backend(rank, _RATINGS_PER_ITEM * problem.catalogue.n_items)


__all__ = ["backend_of"]
