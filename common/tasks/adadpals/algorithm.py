"""AdaDPALS and DPALS, as the rest of the house knows them."""

from importlib.resources import files

from fedboard.common.arrays import FloatArray
from fedboard.common.per_user.weights import WeightScheme
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig, BudgetShares, shares_by_release
from fedboard.common.tasks.adadpals.task import AdaDpals, array_rules
from fedboard.common.tasks.adadpals.update import regression
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import Feedback


def _task(settings: AdaDpalsConfig, *, backend: str, features: FloatArray | None) -> AdaDpals:
    return AdaDpals(settings, backend=backend)


ALGORITHM = Algorithm(
    name=AdaDpals.NAME,
    variants={
        "adadpals": {"weights": WeightScheme.ADAPTIVE},
        "adadpals-clipped": {"weights": WeightScheme.ADAPTIVE_CLIPPED},
        "adadpals-overcount": {"weights": WeightScheme.ADAPTIVE_OVERCOUNT},
        "dpals-tail": {"weights": WeightScheme.TAIL},
        "dpals-uniform": {"weights": WeightScheme.UNIFORM},
    },
    feedback=frozenset(Feedback),
    settings=AdaDpalsConfig,
    shares=BudgetShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=array_rules,
    folder=files(__package__),
    regression=regression,
    not_called=frozenset({"left_out", "residuals"}),
)
"""One task with five weightings."""
