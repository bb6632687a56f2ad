"""Small populations with heavy users, extreme ratings and users without ratings."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.privacy.calibration import noise_multipliers
from fedboard.common.tasks.adadpals import AdaDpals
from fedboard.common.tasks.adadpals_config import AdaDpalsConfig, BudgetShares, Feedback, shares_by_release

N_USERS, N_ITEMS = 40, 25


def population(seed: int = 0, *, n_users: int = N_USERS, n_items: int = N_ITEMS) -> Cohort:
    """User 0 has no rating, user 1 rated everything with the lowest, user 2 everything with the highest."""
    rng = np.random.default_rng(seed)
    rated = rng.random((n_users, n_items)) < rng.uniform(0.05, 0.6, (n_users, 1))
    ratings = rng.integers(1, 6, (n_users, n_items)).astype(np.float32)
    rated[0], rated[1], rated[2] = False, True, True
    ratings[1], ratings[2] = 1.0, 5.0
    users, items = np.nonzero(rated)
    return cohort_from_triples(
        users.astype(np.int32), items.astype(np.int32), ratings[rated], n_users=n_users, n_items=n_items
    )


def presence(cohort: Cohort) -> Cohort:
    """The same users, implicit feedback."""
    return replace(cohort, ratings=np.ones_like(cohort.ratings))


def a_task(epsilon: float = 5.0, **settings: object) -> AdaDpals:
    defaults: dict[str, object] = {
        "rank": 4,
        "rounds": 2,
        "count_cap": 10,
        "mean_cap": 5.0,
        "items_per_user": 6,
    }
    if settings.get("feedback") is Feedback.IMPLICIT:
        defaults |= {"unobserved_weight": 0.1, "item_unobserved_weight": 0.2, "label_bound": 1.0}
    config = AdaDpalsConfig(**{**defaults, **settings})
    multipliers = noise_multipliers(epsilon, 1e-5, shares_by_release(config, BudgetShares()))
    return AdaDpals(replace(config, noise_multipliers=multipliers))


def a_prepared_board(task: AdaDpals, seed: int = 0, n_items: int = N_ITEMS) -> Board:
    """A board after the preparation round, made up: everything on it is public anyway."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 40, n_items).astype(np.float64)
    omega = counts**-0.25
    board = task.first_board(Catalogue(item_ids=tuple(map(str, range(n_items)))))
    return board.successor(
        mean=np.array([3.4]),
        item_counts=counts,
        item_weights=omega,
        item_scale=omega * counts.sum() / (omega * counts).sum(),
        item_ridge=np.full(n_items, 2.0),
        learnt=np.ones(n_items, dtype=np.uint8),
    )


@pytest.fixture
def cohort() -> Cohort:
    return population()
