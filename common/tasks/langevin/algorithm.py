"""Noisy Langevin steps, as the rest of the house knows them."""

from importlib.resources import files

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.langevin.config import LangevinConfig, LangevinShares, shares_by_release
from fedboard.common.tasks.langevin.task import Langevin, array_rules
from fedboard.common.tasks.residual.shrinkage import regression
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.regression import Regression


def _task(settings: LangevinConfig, *, backend: str, features: FloatArray | None) -> Langevin:
    return Langevin(settings, backend=backend)


def _regression(settings: LangevinConfig, own: Cohort, board: Board) -> Regression:
    return regression(settings.model, own, board)


ALGORITHM = Algorithm(
    name=Langevin.NAME,
    feedback=frozenset({Feedback.EXPLICIT}),
    settings=LangevinConfig,
    shares=LangevinShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=array_rules,
    folder=files(__package__),
    regression=_regression,
)
