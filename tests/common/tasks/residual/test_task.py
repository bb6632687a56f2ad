"""Residual alternating minimisation against a slow, obvious version of its formulas, from the first board on."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.tasks.residual.config import (
    Curvature,
    ResidualConfig,
    ResidualShares,
    Shrinkage,
    StageKind,
    Start,
    stage_of,
)
from fedboard.common.tasks.residual.task import Residual
from fedboard.server.runtime import NoisedSums
from tests.common.tasks.conftest import (
    N_ITEMS,
    PRESENCE,
    a_residual_task,
    population,
    presence,
    residual_boards,
)
from tests.common.tasks.residual import obvious_rounds as obvious
from tests.common.tasks.residual.obvious_contributions import row_of

NOISE = SeededNoise(9)
CLOSE = 1e-5


def a_run(task: Residual, cohort: Cohort, folder: Path, *, epsilon: float = 20.0) -> list[Board]:
    """All boards of a run, every release booked against the plan."""
    boards = [task.first_board(Catalogue(item_ids=tuple(map(str, range(cohort.n_items)))))]
    budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=task.settings.shared.adjacency)
    protocol = Trusted()
    with Ledger.create(folder / "ledger", budget, plan=task.settings.shared.noise_multipliers) as ledger:
        while requests := task.requests(boards[-1]):
            rows = protocol.encode(task.contribute(cohort, boards[-1], requests), requests)
            sums = protocol.combine([rows], requests)
            booked = {r.name: r.release.book(ledger, NOISE) for r in requests}
            released = NoisedSums(sums=sums, requests=requests, booked=booked)
            boards.append(task.update(boards[-1], released))
        assert {event["name"] for event in ledger.events()} == set(task.settings.shared.noise_multipliers)
        assert 0.999 * epsilon < ledger.spent().epsilon <= epsilon
    return boards


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.linalg.norm(found - expected) <= CLOSE * np.linalg.norm(expected)


def alike(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Each column of ``expected`` with the sign that it has in ``found``: an axis has no direction."""
    return np.where(np.sum(found * expected, axis=0) < 0, -1.0, 1.0)


VARIANTS: dict[str, dict[str, object]] = {
    "as it comes": {},
    "clipped by quantile": {"clip_quantile": 0.6, "clip_norm": 0.5, "bias_clip_norm": 0.7},
    "every constant another": {
        "popularity_prior": False,
        "gauge_exponent": 0.7,
        "iterate_memory": 0.3,
        "step": 0.8,
        "bias_scale": 0.7,
        "vector_bound": 1.1,
        "user_ridge_exponent": 0.1,
        "weight_exponent": 0.4,
        "noise_variance": 0.5,
    },
    "fixed ridge": {"shrinkage": Shrinkage.RIDGE, "item_ridge": 5.0},
    "matrices once": {"curvature": Curvature.ONCE},
    "matrices every round": {"curvature": Curvature.RELEASED},
    "spectral start": {"start": Start.SPECTRAL},
    "only the head": {"head_fraction": 0.6, "prior_inflation": 1.5, "curvature": Curvature.ONCE},
    "presence": {**PRESENCE, "clip_quantile": 0.5},
    "presence, spectral start": {**PRESENCE, "start": Start.SPECTRAL, "popularity_prior": False},
    "presence, matrices every round": {**PRESENCE, "curvature": Curvature.RELEASED, "head_fraction": 1.0},
    "presence, fixed ridge": {**PRESENCE, "shrinkage": Shrinkage.RIDGE, "item_ridge": 3.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_round_of_a_run_is_what_a_slow_obvious_version_computes(tmp_path: Path, variant: str) -> None:
    cohort = population(n_users=150)
    cohort = cohort if VARIANTS[variant].get("feedback") is None else presence(cohort)
    # Much of the budget for the moments: of so few users they would be noise, and errors grow as they are inverted.
    task = a_residual_task(60.0, shares=ResidualShares(moment=0.5), **VARIANTS[variant])
    boards = a_run(task, cohort, tmp_path, epsilon=60.0)

    assert len(boards) == len(task.plan()) + 1
    for board, after in itertools.pairwise(boards[1:]):
        stage = stage_of(board.version, task.settings)
        if stage.kind is StageKind.BIASES:
            expected = obvious.bias_round(task, cohort, board, NOISE)
        elif stage.kind is StageKind.ALTERNATION:
            expected = obvious.alternation(task, cohort, board, NOISE, t=stage.alternation)
            signs = alike(after.arrays["item_factors"], expected["item_factors"])
            expected["item_factors"] = expected["item_factors"] * signs
            if "item_curvature" in expected:
                whole = np.concatenate([[1.0], signs])
                matrices = obvious.full_matrices(
                    after.arrays["item_curvature"], whole.size
                )  # in the new gauge
                assert_close(matrices, expected.pop("item_curvature") * np.outer(whole, whole))
        else:
            continue
        for name, values in expected.items():
            assert_close(after.arrays[name].astype(np.float64), values)


def test_public_features_of_the_items_join_the_prior(tmp_path: Path) -> None:
    cohort, features = population(n_users=120), np.random.default_rng(5).standard_normal((N_ITEMS, 2))
    task = replace(a_residual_task(20.0, rounds=1), features=features)

    boards = a_run(task, cohort, tmp_path)

    expected = obvious.bias_round(task, cohort, boards[1], NOISE)["item_biases"]
    without = obvious.bias_round(replace(task, features=None), cohort, boards[1], NOISE)["item_biases"]
    assert_close(boards[2].arrays["item_biases"], expected)
    assert np.linalg.norm(expected - without) > 100 * CLOSE * np.linalg.norm(expected)


def test_the_preparation_is_mean_counts_and_number_of_users(tmp_path: Path) -> None:
    cohort = population(n_users=120)
    task = a_residual_task(20.0)
    s, z = task.settings, task.settings.shared.noise_multipliers

    arrays = a_run(task, cohort, tmp_path)[1].arrays

    def noise(name: str, size: int = 1) -> np.ndarray:
        return z[name] * NOISE.stream(name).normal(0, size)

    total, number, counts = 0.0, 0.0, np.zeros(N_ITEMS)
    for j in range(cohort.n_users):
        own = cohort.rows(j, j + 1)
        capped = min(1.0, s.shared.mean_cap / max(own.n_ratings, 1))
        total += capped * float(np.sum(own.ratings - 3.0))
        number += capped * own.n_ratings
        counts[own.items] += min(1.0, np.sqrt(s.shared.count_cap / max(own.n_ratings, 1)))
    total += s.shared.mean_cap * 2.0 * noise("mean/sum")[0]
    number += s.shared.mean_cap * noise("mean/number")[0]
    counts = np.maximum(counts + np.sqrt(s.shared.count_cap) * noise("counts", N_ITEMS), 1.0)
    assert arrays["mean"][0] == pytest.approx(np.clip(3.0 + total / number, 1.0, 5.0), rel=1e-4)
    assert arrays["population"][0] == pytest.approx(
        np.count_nonzero(cohort.counts) + noise("users")[0], rel=1e-3
    )
    np.testing.assert_allclose(arrays["item_counts"], counts, rtol=2e-3)
    np.testing.assert_allclose(arrays["item_weights"], arrays["item_counts"] ** -s.weight_exponent)
    assert np.all(arrays["learnt"] == 1)


def test_the_spectral_start_takes_the_leading_directions_of_what_items_share() -> None:
    cohort = population(n_users=400)
    task = a_residual_task(20.0, start=Start.SPECTRAL, rank=2)
    board = residual_boards(task)[2]
    (request,) = task.requests(board)
    sums = FactoredSums.of(task.contribute(cohort, board, (request,)))

    exact = sums.block([request], 0, 1)[request.name] * request.release.grid_step
    after = task.update(board, _Given({"pairs": exact})).arrays["sketch_factors"].astype(np.float64)

    shared = np.zeros((N_ITEMS, N_ITEMS))
    for j in range(cohort.n_users):
        own = cohort.rows(j, j + 1)
        if own.n_ratings:
            row = row_of(task, own, board, t=0, clip_norm=4.0)
            z = np.zeros(N_ITEMS)
            z[own.items] = row.weights * row.residuals / np.linalg.norm(row.weights * row.residuals)
            shared += np.outer(z, z)
    np.fill_diagonal(shared, 0.0)
    values, vectors = np.linalg.eigh(shared)
    expected = vectors[:, -2:] * np.sqrt(values[-2:]) / board.arrays["item_weights"][:, None]
    expected *= 0.3 / np.sqrt(np.mean(np.sum(expected**2, axis=1)))
    assert np.linalg.norm(after @ after.T - expected @ expected.T) < 0.01 * np.linalg.norm(
        expected @ expected.T
    )


class _Given:
    """Sums without noise, in real units."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

    def array(self, name: str) -> np.ndarray:
        return self.arrays[name]


def test_the_loss_of_a_run_with_little_noise_falls(tmp_path: Path) -> None:
    cohort = population(1, n_users=400)
    rng = np.random.default_rng(2)
    tastes, styles = rng.standard_normal((400, 2)), rng.standard_normal((N_ITEMS, 2))
    told = 3.0 + np.sum(tastes[cohort.user_of_entry()] * styles[cohort.items], axis=1)
    cohort = replace(cohort, ratings=np.clip(told, 1.0, 5.0).astype(np.float32))
    task = a_residual_task(200.0, rank=2, rounds=4, user_ridge=1.0, clip_norm=3.0, bias_clip_norm=2.0)

    boards = a_run(task, cohort, tmp_path, epsilon=200.0)

    def error(board: Board) -> float:
        local = task.fit_local(cohort, board)
        predicted = task.predict(local, board, cohort.user_of_entry(), cohort.items)
        return float(np.sqrt(np.mean((predicted - cohort.ratings) ** 2)))

    errors = [error(board) for board in boards[1:]]
    assert errors[-1] < 0.6 * errors[0]
    assert errors[-1] < 1.05 * min(errors)


@pytest.mark.slow
@pytest.mark.parametrize("start", list(Start))
@pytest.mark.parametrize("n_items", [1, 2])
def test_a_run_with_hardly_any_items_or_users_goes_through(
    tmp_path: Path, start: Start, n_items: int
) -> None:
    task = a_residual_task(5.0, start=start, curvature=Curvature.ONCE)

    for n_users in (0, 1, 40):
        folder = tmp_path / str(n_users)
        folder.mkdir()
        cohort = population(n_users=40, n_items=n_items).rows(0, n_users)
        boards = a_run(task, cohort, folder, epsilon=5.0)
        assert all(np.isfinite(values).all() for values in boards[-1].arrays.values())


def test_a_release_without_calibrated_noise_is_refused() -> None:
    with pytest.raises(PrivacyError, match="calibrate"):
        Residual(ResidualConfig()).plan()


def test_a_run_under_replace_works_and_pays_for_it(tmp_path: Path) -> None:
    task = a_residual_task(20.0, adjacency=Adjacency.REPLACE, clip_quantile=0.5, start=Start.SPECTRAL)

    boards = a_run(task, population(n_users=120), tmp_path)

    assert np.isfinite(boards[-1].arrays["item_factors"]).all()
    assert not task.requests(boards[-1])
