"""AdaDPSGD and DPSGD, as the rest of the house knows them."""

from collections.abc import Collection
from dataclasses import replace
from importlib.resources import files

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.per_user.weights import WeightScheme
from fedboard.common.tasks.adadpals.update import regression
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig, AdaDpsgdShares, shares_by_release
from fedboard.common.tasks.adadpsgd.task import AdaDpsgd, array_rules
from fedboard.common.tasks.adadpsgd.update import equal_step_count
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.regression import Regression

MOST_STEPS = 200
"""The theorem asks for thousands where there are many users; more than this change little."""


def _task(settings: AdaDpsgdConfig, *, backend: str, features: FloatArray | None) -> AdaDpsgd:
    return AdaDpsgd(settings, backend=backend)


def _regression(settings: AdaDpsgdConfig, own: Cohort, board: Board) -> Regression:
    return regression(settings.model, own, board)


def _with_steps_of_theorem(settings: AdaDpsgdConfig, *, given: Collection[str], mu: float) -> AdaDpsgdConfig:
    """The step count of theorem 3.12 where the sizes that it needs were guessed; a plan may not look at data."""
    if "steps" in given or settings.ratings_per_item is None or settings.ratings_per_user is None:
        return settings
    wanted = equal_step_count(
        mu,
        settings.rank,
        ratings_per_item=settings.ratings_per_item,
        ratings_per_user=settings.ratings_per_user,
    )
    return replace(settings, steps=max(1, min(round(wanted), MOST_STEPS)))


ALGORITHM = Algorithm(
    name=AdaDpsgd.NAME,
    variants={
        "adadpsgd": {"weights": WeightScheme.ADAPTIVE},
        "adadpsgd-clipped": {"weights": WeightScheme.ADAPTIVE_CLIPPED},
        "adadpsgd-overcount": {"weights": WeightScheme.ADAPTIVE_OVERCOUNT},
        "dpsgd-tail": {"weights": WeightScheme.TAIL},
        "dpsgd-uniform": {"weights": WeightScheme.UNIFORM},
    },
    feedback=frozenset(Feedback),
    settings=AdaDpsgdConfig,
    shares=AdaDpsgdShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=array_rules,
    folder=files(__package__),
    regression=_regression,
    complete=_with_steps_of_theorem,
)
"""One task with five weightings."""
