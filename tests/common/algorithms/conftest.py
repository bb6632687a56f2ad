"""Small populations with heavy users, extreme ratings and users without ratings."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig, BudgetShares, shares_by_release
from fedboard.common.algorithms.residual import config as residual_config
from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.config import ResidualConfig, ResidualShares, StageKind, stage_of
from fedboard.common.algorithms.shared.preparation import head_of
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written, with_noise
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import NoiseSource, SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.server.round import lost_round
from fedboard.server.runtime import NoisedSums

N_USERS, N_ITEMS = 40, 25
SPREAD = 1.1
"""Deviation of a rating on the boards that are made up, stars."""
USUAL_SHARES = ResidualShares()
PRESENCE: dict[str, object] = {
    "feedback": Feedback.IMPLICIT,
    "unobserved_weight": 0.1,
    "item_unobserved_weight": 0.05,
    "head_fraction": 0.7,
    "noise_variance": 0.2,
    "clip_norm": 0.6,
}


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


def without(cohort: Cohort, user: int) -> Cohort:
    """Everybody else: her row is not empty, it is not there."""
    first, last = cohort.rows(0, user), cohort.rows(user + 1, cohort.n_users)
    return Cohort(
        indptr=np.concatenate([first.indptr, last.indptr[1:] + first.indptr[-1]]),
        items=np.concatenate([first.items, last.items]),
        ratings=np.concatenate([first.ratings, last.ratings]),
        n_items=cohort.n_items,
        user_keys=None if cohort.user_keys is None else np.delete(cohort.user_keys, user),
    )


def exact_sums(task: Any, cohort: Cohort, board: Board) -> dict[str, np.ndarray]:
    """Of what these users give to the round after this board."""
    requests = task.requests(board)
    return whole_sums(FactoredSums.of(task.contribute(cohort, board, requests)), requests)


def through(
    task: Any, cohort: Cohort, ledger: Ledger, *, lost: int | None = None, noise: NoiseSource | None = None
) -> Iterator[Board]:
    """The boards of a run after the first, through ledger and noise; the round after board ``lost`` is lost."""
    board = task.first_board(Catalogue(item_ids=tuple(map(str, range(cohort.n_items)))))
    while requests := task.requests(board):
        if board.version == lost:
            board = lost_round(board).board
        else:
            sums = FactoredSums.of(task.contribute(cohort, board, requests))
            booked = {r.name: r.release.book(ledger, noise or SeededNoise(0)) for r in requests}
            board = task.update(board, NoisedSums(sums=sums, requests=requests, booked=booked))
        yield board


def isometric_norm(request: Request, change: np.ndarray) -> float:
    scale = np.ones(request.release.width)
    if request.release.layout == "symmetric":
        rank = int((np.sqrt(8 * request.release.width + 1) - 1) / 2)
        rows, columns = np.triu_indices(rank)
        scale[rows != columns] = np.sqrt(2.0)
    return float(np.linalg.norm(change.astype(np.float64) * scale))


def largest_shares(task: Any, cohort: Cohort, boards: Sequence[Board]) -> dict[str, float]:
    """By release: the largest norm of one user's contribution, as a share of the booked bound."""
    largest: dict[str, float] = defaultdict(float)
    for board in boards:
        requests = {r.name: r for r in task.requests(board)}
        for j in range(cohort.n_users):
            for name, change in exact_sums(task, cohort.rows(j, j + 1), board).items():
                part = isometric_norm(requests[name], change) / requests[name].release.l2_bound
                largest[name] = max(largest[name], part)
    return largest


def largest_linear(rows: Contribution, requests: Sequence[Request]) -> float:
    """The largest norm of what one user adds to the sums per item, as a share of the booked bound."""
    (linear,) = (r for r in requests if r.source is SumSource.ITEM_LINEAR)
    found = 0.0
    for j in range(rows.n_users):
        keep = np.arange(rows.n_users) == j
        change = FactoredSums.of(rows, keep=keep).block([linear], 0, rows.n_items)[linear.name]
        found = max(found, isometric_norm(linear, change) / linear.release.l2_bound)
    return found


def booked_run(
    task: Any, cohort: Cohort, folder: Path, *, epsilon: float = 20.0, noise: NoiseSource | None = None
) -> list[Board]:
    """All boards of a run, every release booked against the plan, and no more than the budget spent."""
    shared = task.settings.shared
    budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=shared.adjacency)
    with Ledger.create(folder / "ledger", budget, plan=shared.noise_multipliers) as ledger:
        first = task.first_board(Catalogue(item_ids=tuple(map(str, range(cohort.n_items)))))
        boards = [first, *through(task, cohort, ledger, noise=noise or SeededNoise(1))]
        assert {event["name"] for event in ledger.events()} == set(shared.noise_multipliers)
        assert 0.999 * epsilon < ledger.spent().epsilon <= epsilon
    return boards


def with_taste(cohort: Cohort) -> Cohort:
    """The same ratings around what two factors and a bias of each item say."""
    rng = np.random.default_rng(2)
    tastes, styles = rng.standard_normal((cohort.n_users, 2)), rng.standard_normal((cohort.n_items, 2))
    liked = 3.0 + rng.normal(0.0, 0.7, cohort.n_items)[cohort.items]
    told = liked + np.sum(tastes[cohort.user_of_entry()] * styles[cohort.items], axis=1)
    return replace(cohort, ratings=np.clip(np.rint(told), 1.0, 5.0).astype(np.float32))


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
    config = from_written({**defaults, **settings}, AdaDpalsConfig)
    multipliers = noise_multipliers(epsilon, 1e-5, shares_by_release(config, BudgetShares()))
    return AdaDpals(with_noise(config, multipliers))


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


def a_residual_task(
    epsilon: float = 5.0, *, shares: ResidualShares = USUAL_SHARES, **settings: object
) -> Residual:
    defaults: dict[str, object] = {"rank": 3, "rounds": 3, "count_cap": 10, "mean_cap": 5.0}
    config = from_written({**defaults, **settings}, ResidualConfig)
    by_release = residual_config.shares_by_release(config, shares)
    return Residual(with_noise(config, noise_multipliers(epsilon, 1e-5, by_release)))


def residual_boards(task: Residual, seed: int = 0, n_items: int = N_ITEMS) -> list[Board]:
    """One board for each stage of a run, made up: everything on them is public anyway."""
    rng, settings = np.random.default_rng(seed), task.settings
    counts = rng.integers(1, 40, n_items).astype(np.float64)
    learnt = head_of(counts, settings.head_fraction)
    boards = [task.first_board(Catalogue(item_ids=tuple(map(str, range(n_items)))))]
    while True:
        stage = stage_of(boards[-1].version, settings)
        made: dict[str, np.ndarray] = {}
        if stage.kind is StageKind.PREPARATION:
            made = {
                "mean": np.array([3.4 if settings.has_biases else 0.0]),
                "population": np.array([float(N_USERS)]),
                "item_counts": counts,
                "item_weights": counts**-settings.weight_exponent,
                "learnt": learnt,
                **({"spread": np.array([SPREAD])} if settings.has_biases else {}),
            }
        elif stage.kind is StageKind.BIASES:
            biases = rng.normal(0.0, 0.4, n_items) * learnt * settings.has_biases
            made = {"weighted_counts": 0.3 * counts**0.75, "item_biases": biases.astype(np.float32)}
            if settings.has_biases:
                made["explores"] = np.array([1.0])
        elif stage.kind is StageKind.PAIRS:
            made = {"sketch_factors": rng.normal(0.0, 0.2, (n_items, settings.rank)).astype(np.float32)}
        elif stage.alternation < settings.rounds:
            factors = rng.normal(0.0, 0.6, (n_items, settings.rank)) * learnt[:, None]
            made = {
                "item_factors": factors.astype(np.float32),
                **(
                    {}
                    if settings.clip_quantile is None
                    else {"clip_norm": np.array([0.8 * settings.clip_norm])}
                ),
            }
            if residual_config.releases_ridges(settings, stage.alternation):
                made["user_ridge"] = np.array([6.0 * SPREAD**2])
        else:
            return boards
        boards.append(boards[-1].successor(**made))


@pytest.fixture
def cohort() -> Cohort:
    return population()
