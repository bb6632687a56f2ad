"""AdaDPALS on the bias floor: the contract of algorithms, what a user can move, and what the floor is worth."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedboard.common.algorithms.adadpals.algorithm import ALGORITHM
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig
from fedboard.common.algorithms.shared.algorithm import Algorithm
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.evaluation.algorithm_contract import CHECKS
from fedboard.simulations.simulate import simulate

BIASED = replace(
    ALGORITHM,
    variants={"adadpals": {"weights": WeightScheme.ADAPTIVE, "biases": True}},
    feedback=frozenset({Feedback.EXPLICIT}),
    folder=None,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_is_kept(check: Callable[[Algorithm], None]) -> None:
    check(BIASED)


@pytest.mark.slow
def test_the_floor_is_worth_its_budget_where_people_rate_little(tmp_path: Path) -> None:
    error = {}
    for biases in (False, True):
        raw = {
            "algorithm": "adadpals",
            "settings": {"biases": biases},
            "data": {"synthetic": {"n_users": 1500, "n_items": 150, "mean_ratings_per_user": 12.0}},
            "run": {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"},
        }
        final = simulate(parse_config(raw), tmp_path / str(biases), report=False).final
        error[biases] = final["metrics"]["test_rmse"]

    assert error[True] < 0.97 * error[False]


def test_presence_has_no_biases() -> None:
    with pytest.raises(InputError, match="biases must be false for implicit feedback"):
        from_written({"biases": True, "feedback": Feedback.IMPLICIT}, AdaDpalsConfig)
