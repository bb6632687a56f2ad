"""Which kernels a run uses."""

from fedboard.common import kernels
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem

_USUAL_RANK = 8


def backend_of(config: SimulationConfig, problem: Problem) -> str:
    """The kernels that the configuration names, or the quickest for this rank and size."""
    if config.run.kernels != "auto":
        return config.run.kernels
    rank = config.settings.get("rank")
    if not isinstance(rank, int) or rank < 1:  # not given, or refused where settings are checked
        rank = _USUAL_RANK
    return kernels.choose_backend(rank, problem.train.n_ratings)


__all__ = ["backend_of"]
