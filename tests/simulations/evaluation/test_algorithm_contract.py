"""The contract of algorithms: every one here keeps it, and each way of breaking it is found and named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.algorithms.registry import ALGORITHMS, algorithm_of
from fedboard.common.algorithms.shared.algorithm import Algorithm
from fedboard.common.algorithms.shared.array_rules import number
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import FedboardError
from fedboard.simulations.evaluation.algorithm_contract import (
    CHECKS,
    ContractError,
    budget_is_spent,
    contributions_keep_their_bounds,
    explanations_sum_to_the_prediction,
    predictions_and_rankings_agree,
    runs_as_it_plans,
    task_is_its_name_and_configuration,
)
from fedboard.simulations.runs.calibrated import chosen_algorithm

EXAMPLE = chosen_algorithm(
    f"{Path(__file__).parents[3] / 'examples' / 'damped_means.py'}:ALGORITHM"
).algorithm
Task: Any = type(EXAMPLE.task(EXAMPLE.settings(), backend="numpy", features=None))
Check = Callable[[Algorithm], None]
NAMES = list(ALGORITHMS)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("algorithm", [*map(algorithm_of, NAMES), EXAMPLE], ids=lambda found: found.name)
def test_it_is_kept(algorithm: Algorithm, check: Check) -> None:
    check(algorithm)


def with_task(**methods: Any) -> Algorithm:
    """The example with other methods."""
    changed = type("Changed", (Task,), {"__slots__": (), **methods})
    return replace(EXAMPLE, task=lambda settings, *, backend, features: changed(settings, backend=backend))


def louder(self: Any, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
    """Six times the weights: longer than the bound for who rated everything."""
    made: Contribution = Task.contribute(self, cohort, board, requests)
    assert made.weights is not None
    return replace(made, weights=(made.weights * 6).astype(np.int16))


def gossiping(self: Any, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
    """What a user gives depends on who else is asked."""
    made: Contribution = Task.contribute(self, cohort, board, requests)
    return made if cohort.n_users > 1 or made.weights is None else replace(made, weights=made.weights // 2)


def fickle(self: Any, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
    made: Contribution = Task.contribute(self, cohort, board, requests)
    coins = np.random.default_rng().integers(1, 4, made.items.size).astype(np.int16)
    return made if made.weights is None else replace(made, weights=made.weights // coins)


def signed(self: Any, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
    """Counts of either sign."""
    made: Contribution = Task.contribute(self, cohort, board, requests)
    assert made.weights is not None
    signs = np.where(np.arange(made.items.size) % 2 == 0, 1, -1).astype(np.int16)
    return replace(made, weights=made.weights * signs)


def also(self: Any, board: Board) -> tuple[Request, ...]:
    """The last round again, beyond the plan."""
    version = min(board.version, 1) if board.version < 3 else board.version
    asked: tuple[Request, ...] = Task.requests(self, replace(board, version=version))
    return asked


def unclipped(self: Any, local: Any, board: Board, users: Any, items: Any) -> Any:
    return Task.predict(self, local, board, users, items) + 3.0


def backwards(self: Any, local: Any, board: Board) -> Any:
    users, items = Task.ranking_factors(self, local, board)
    return users, -items


BROKEN = {
    "shares of nine tenths": (
        budget_is_spent,
        replace(
            EXAMPLE,
            shares_by_release=lambda *a: {k: 0.9 * v for k, v in EXAMPLE.shares_by_release(*a).items()},
        ),
        "sums to 0.9",
    ),
    "a release without a share": (
        budget_is_spent,
        replace(
            EXAMPLE,
            shares_by_release=lambda *a: {**EXAMPLE.shares_by_release(*a), "deviations": 0.3, "more": 0.38},
        ),
        "not those of the plan",
    ),
    "the name of another task": (
        task_is_its_name_and_configuration,
        replace(EXAMPLE, name="other"),
        "its algorithm 'other'",
    ),
    "a round more than planned": (runs_as_it_plans, with_task(requests=also), "already|planned were"),
    "a rule that no board keeps": (
        runs_as_it_plans,
        replace(EXAMPLE, array_rules=lambda *a: (*EXAMPLE.array_rules(*a), number("clip_norm", 0.0, 1.0))),
        "breaks the rule of 'clip_norm'",
    ),
    "no rules": (runs_as_it_plans, replace(EXAMPLE, array_rules=lambda *a: ()), "has none"),
    "rows beyond their bound": (contributions_keep_their_bounds, with_task(contribute=louder), "bound"),
    "a part that depends on others": (
        contributions_keep_their_bounds,
        with_task(contribute=gossiping),
        "depends on who is asked with her",
    ),
    "another answer each time": (
        contributions_keep_their_bounds,
        with_task(contribute=fickle),
        "another when asked",
    ),
    "counts of either sign": (
        contributions_keep_their_bounds,
        with_task(contribute=signed),
        "same_sign|bound|sign",
    ),
    "predictions beyond the range": (predictions_and_rankings_agree, with_task(predict=unclipped), "outside"),
    "a ranking of its own": (
        predictions_and_rankings_agree,
        with_task(ranking_factors=backwards),
        "order items differently",
    ),
    "another regression": (
        explanations_sum_to_the_prediction,
        replace(EXAMPLE, regression=lambda *a: replace(EXAMPLE.regression(*a), ridge=50.0)),  # type: ignore[misc]
        "does not give what predict gives",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_breaks_it_is_found_and_named(how: str) -> None:
    check, algorithm, message = BROKEN[how]

    with pytest.raises((ContractError, FedboardError), match=message):
        check(algorithm)


def test_every_check_has_a_way_of_being_broken() -> None:
    assert {check for check, _, _ in BROKEN.values()} == set(CHECKS)
