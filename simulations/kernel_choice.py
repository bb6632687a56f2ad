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
    known = isinstance(rank, int) and rank > 0  # anything else is refused where settings are checked
    return kernels.choose_backend(rank if known else _USUAL_RANK, problem.train.n_ratings)


__all__ = ["backend_of"]
