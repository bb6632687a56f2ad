"""Residual alternating minimisation, as the rest of the house knows it."""

from importlib.resources import files

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.residual.config import ResidualConfig, ResidualShares, complete, shares_by_release
from fedboard.common.tasks.residual.ridges import RIDGES
from fedboard.common.tasks.residual.shrinkage import regression
from fedboard.common.tasks.residual.task import Residual, array_rules
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.round_size import RoundSize


def _task(settings: ResidualConfig, *, backend: str, features: FloatArray | None) -> Residual:
    return Residual(settings, backend=backend, features=features)


def _round_size(rank: int) -> RoundSize:
    """g_i of each item, which has a bias too, the users' symmetric second moment, and what ridges do."""
    width = rank + 1
    return RoundSize(
        vector_width=width,
        item_numbers=width,
        common_numbers=width * (width + 1) // 2 + RIDGES.size,
        user_numbers=RIDGES.size,
        board_bytes=4 * rank + 45,
    )


ALGORITHM = Algorithm(
    name=Residual.NAME,
    feedback=frozenset(Feedback),
    settings=ResidualConfig,
    shares=ResidualShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=array_rules,
    folder=files(__package__),
    regression=regression,
    round_size=_round_size,
    complete=complete,
    not_called=frozenset({"psd"}),
)
