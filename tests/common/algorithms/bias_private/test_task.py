"""Private item biases: what a user can move, what a slow version computes, and that they are a floor."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.bias_private.algorithm import (
    BiasConfig,
    BiasPrivate,
    BiasShares,
    complete,
    shares_by_release,
)
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written, with_noise
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.calibration import noise_multipliers
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from tests.common.algorithms.conftest import through

SCALES = ((1.0, 5.0), (0.5, 4.0), (1.0, 10.0), (-10.0, 10.0), (0.0, 1.0))
N_ITEMS = 40


def a_task(
    epsilon: float = 5.0, *, scale: tuple[float, float] = (1.0, 5.0), **settings: object
) -> BiasPrivate:
    config = from_written({"rating_low": scale[0], "rating_high": scale[1], **settings}, BiasConfig)
    config = complete(config, given=settings.keys(), mu=mu_for(epsilon, 1e-5))
    return BiasPrivate(
        with_noise(config, noise_multipliers(epsilon, 1e-5, shares_by_release(config, BiasShares())))
    )


def people(
    scale: tuple[float, float], *, n_users: int = 400, n_items: int = N_ITEMS, seed: int = 0
) -> Cohort:
    """Users with 0, 1, 2, many and all items; ratings on the ends of the scale and between."""
    rng = np.random.default_rng(seed)
    low, high = scale
    chance = rng.uniform(0.02, 0.6, (n_users, 1)) * np.geomspace(1.0, 0.1, n_items)
    rated = rng.random((n_users, n_items)) < chance
    rated[0], rated[1] = False, True
    rated[2], rated[3] = np.arange(n_items) == 5, np.arange(n_items) < 2
    quality = 0.5 + 0.25 * np.sin(np.arange(n_items)) + 0.1 * rng.standard_normal((n_users, 1))
    ratings = low + (high - low) * np.clip(quality + 0.2 * rng.standard_normal(rated.shape), 0.0, 1.0)
    if scale == (0.0, 1.0):
        ratings = np.round(ratings)
    ratings[1], ratings[2] = low, high
    users, items = np.nonzero(rated)
    return cohort_from_triples(
        users.astype(np.int32),
        items.astype(np.int32),
        ratings[rated].astype(np.float32),
        n_users=n_users,
        n_items=n_items,
    )


def played(
    task: BiasPrivate, cohort: Cohort, folder: Path, *, lost: int = -1, seed: int = 0
) -> Iterator[Board]:
    """The boards of a run through ledger and noise."""
    board = task.first_board(Catalogue(item_ids=tuple(map(str, range(cohort.n_items)))))
    yield board
    with Ledger.create(folder, Budget(epsilon=100.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)) as ledger:
        yield from through(task, cohort, ledger, lost=lost, noise=SeededNoise(seed))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_no_user_moves_a_release_by_more_than_is_booked(scale: tuple[float, float], tmp_path: Path) -> None:
    """Brute force: the sums with and without each user, on every board of a run; somebody comes near each bound."""
    task, cohort = a_task(scale=scale), people(scale, n_users=60)
    largest: dict[str, float] = {}
    for board in played(task, people(scale), tmp_path / "ledger"):
        requests = task.requests(board)
        if not requests:
            break
        whole = whole_sums(FactoredSums.of(task.contribute(cohort, board, requests)), requests)
        for user in range(cohort.n_users):
            others = cohort.where(cohort.user_of_entry() != user)
            without = whole_sums(FactoredSums.of(task.contribute(others, board, requests)), requests)
            for request in requests:
                moved = float(
                    np.linalg.norm((whole[request.name] - without[request.name]).astype(np.float64))
                )
                share = moved / request.release.l2_sensitivity
                largest[request.name] = max(largest.get(request.name, 0.0), share)

    assert list(largest) == ["moments", "counts", "first", "second"]
    assert max(largest.values()) <= 1.0
    assert min(largest.values()) > 0.5


def test_a_sum_is_what_a_slow_version_computes(tmp_path: Path) -> None:
    task, cohort = a_task(), people((1.0, 5.0))
    boards = list(played(task, cohort, tmp_path / "ledger"))
    for version, name, clip in (
        (1, "first", task.settings.first_clip),
        (2, "second", task.settings.second_clip),
    ):
        board = boards[version]
        mean, spread = float(board.arrays["mean"][0]), float(board.arrays["spread"][0])
        biases = board.arrays["item_biases"].astype(np.float64)
        sums, counts = np.zeros(N_ITEMS), np.zeros(N_ITEMS)
        for user in range(cohort.n_users):
            own = cohort.rows(user, user + 1)
            if own.n_ratings == 0:
                continue
            left = own.ratings.astype(np.float64) - mean - biases[own.items]
            if version == 2:
                left = left - left.sum() / (own.n_ratings + task.settings.user_ridge)
            weight = min(1.0, clip * spread / np.sqrt(np.mean(left**2))) / np.sqrt(own.n_ratings)
            on_grid = (
                np.trunc(left / spread * 512) / 512 * spread
            )  # of 8 deviations in 2^12 steps, toward zero
            sums[own.items] += weight * on_grid
            counts[own.items] += weight

        requests = task.requests(board)
        found = whole_sums(FactoredSums.of(task.contribute(cohort, board, requests)), requests)

        step = {request.name: request.release.grid_step for request in requests}
        np.testing.assert_allclose(
            found[name][:, 0] * step[name] * spread, sums, atol=2e-3 * np.abs(sums).max()
        )
        if version == 1:
            np.testing.assert_allclose(found["counts"][:, 0] * step["counts"], counts, rtol=2e-3)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_with_a_large_budget_items_are_told_apart(scale: tuple[float, float], tmp_path: Path) -> None:
    cohort = people(scale, n_users=3000)
    board = list(played(a_task(50.0, scale=scale), cohort, tmp_path / "ledger"))[-1]

    truth = np.sin(np.arange(N_ITEMS))
    assert np.corrcoef(board.arrays["item_biases"], truth)[0, 1] > 0.95
    apart = np.ptp(board.arrays["item_biases"]) / (scale[1] - scale[0])
    assert 0.2 < apart < 0.9


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_with_next_to_no_budget_it_is_a_constant(scale: tuple[float, float], tmp_path: Path) -> None:
    """No negative surprise: what noise alone says of items stays far below what ratings differ."""
    cohort, width = people(scale), scale[1] - scale[0]
    for seed in range(3):
        board = list(played(a_task(0.01, scale=scale), cohort, tmp_path / f"ledger-{seed}", seed=seed))[-1]

        assert np.abs(board.arrays["item_biases"]).max() < 0.05 * width
        assert scale[0] + 0.2 * width < board.arrays["mean"][0] < scale[1] - 0.2 * width


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_round_leaves_what_was_known(lost: int, tmp_path: Path) -> None:
    boards = list(played(a_task(), people((1.0, 5.0)), tmp_path / "ledger", lost=lost))

    assert np.isfinite(boards[-1].arrays["item_biases"]).all()
    assert np.any(boards[-1].arrays["item_biases"]) == (lost == 2)


def test_the_moments_get_what_their_accuracy_needs() -> None:
    shares = [
        complete(BiasConfig(), given=(), mu=mu_for(e, 1e-5)).moments_share for e in (0.05, 0.5, 1.0, 20.0)
    ]

    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 0.5
    assert shares[-1] == 0.005
    kept = complete(BiasConfig(moments_share=0.1), given=("moments_share",), mu=1.0)
    assert kept.moments_share == 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 3}, "rounds must be 0, 1 or 2"),
        ({"feedback": Feedback.IMPLICIT}, "presence has no mean"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_written(settings, BiasConfig)


def test_what_is_booked_is_the_same_whoever_is_there(tmp_path: Path) -> None:
    """The released deviation sets the bound in stars, not in what is booked: the course is the same for all."""
    task = a_task()
    few = people((1.0, 5.0)).rows(0, 5)
    asked = [
        [task.requests(board) for board in played(task, cohort, tmp_path / str(number))]
        for number, cohort in enumerate((people((1.0, 5.0)), few))
    ]

    assert asked[0] == asked[1]
