"""Residual alternating minimisation, as the rest of the house knows it."""

from importlib.resources import files

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.residual.config import ResidualConfig, ResidualShares, complete, shares_by_release
from fedboard.common.tasks.residual.shrinkage import regression
from fedboard.common.tasks.residual.task import Residual, array_rules
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import Feedback


def _task(settings: ResidualConfig, *, backend: str, features: FloatArray | None) -> Residual:
    return Residual(settings, backend=backend, features=features)


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
    complete=complete,
    not_called=frozenset({"psd"}),
)
