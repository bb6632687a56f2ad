"""AdaDPALS against a slow, obvious version of its formulas, and its promise about single users."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig
from fedboard.common.algorithms.adadpals.server import gauged, item_ridge_of, unobserved_scale
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums
from fedboard.server.runtime import NoisedSums
from tests.common.algorithms.conftest import (
    N_USERS,
    a_prepared_board,
    a_task,
    largest_shares,
    population,
    presence,
    through,
)

ALL_SCHEMES = list(WeightScheme)


def boards_of_all_stages(task: AdaDpals) -> list[Board]:
    prepared = a_prepared_board(task)
    return [task.first_board(prepared.catalogue), prepared]


def obvious_round(task: AdaDpals, cohort: Cohort, board: Board, noise: SeededNoise) -> np.ndarray:
    """SPEC 4.1 with loops and dense matrices, no grid in the sums, floating-point noise of the same deviation."""
    s, implicit = task.settings, task.settings.shared.feedback is Feedback.IMPLICIT
    u = board.arrays["item_factors"].astype(np.float64)
    rank, omega = s.rank, board.arrays["item_weights"]
    a = np.zeros((cohort.n_items, rank, rank))
    b = np.zeros((cohort.n_items, rank))
    g = np.zeros((rank, rank))
    for j in range(cohort.n_users):
        row = cohort.rows(j, j + 1)
        if row.n_ratings == 0:
            continue
        x = u[row.items]
        y = row.ratings - (0.0 if implicit else np.float32(board.arrays["mean"][0]))
        own = x.T @ x + s.user_ridge * row.n_ratings**s.user_ridge_exponent * np.eye(rank)
        own += s.unobserved_weight * u.T @ u
        v = np.linalg.solve(own, x.T @ y)
        v *= min(1.0, s.clip_norm / np.linalg.norm(v))
        w = omega[row.items] / np.sqrt(np.sum(omega[row.items] ** 2))
        # The public grid that contributions live on (SPEC 9), toward zero.
        v = np.trunc(v / s.clip_norm * 2**12) * s.clip_norm / 2**12
        w = np.trunc(w * 2**14) / 2**14
        y = (
            np.trunc(np.clip(y, -s.label_bound, s.label_bound) / s.label_bound * 2**12)
            * s.label_bound
            / 2**12
        )
        g += np.outer(v, v)
        for i, w_ij, y_ij in zip(row.items, w, y, strict=True):
            a[i] += w_ij * np.outer(v, v)
            b[i] += w_ij * y_ij * v
    t, z = board.version, s.shared.noise_multipliers
    upper, packed = np.triu_indices(rank), rank * (rank + 1) // 2

    def symmetric_noise(name: str, rows: int) -> np.ndarray:
        draws = noise.stream(name).normal(0, rows * packed).reshape(rows, packed)
        full = np.zeros((rows, rank, rank))
        full[:, upper[0], upper[1]] = draws * np.where(upper[0] == upper[1], 1.0, np.sqrt(0.5))
        return full + np.triu(full, 1).transpose(0, 2, 1)

    def projected(matrix: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(matrix)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    a += z[f"round-{t}/quadratic"] * s.clip_norm**2 * symmetric_noise(f"round-{t}/quadratic", cohort.n_items)
    draws = noise.stream(f"round-{t}/linear").normal(0, b.size).reshape(b.shape)
    b += z[f"round-{t}/linear"] * s.clip_norm * s.label_bound * draws
    extra = np.zeros((rank, rank))
    if implicit:
        g += z[f"round-{t}/gram"] * s.clip_norm**2 * symmetric_noise(f"round-{t}/gram", 1)[0]
        extra = s.item_unobserved_weight * projected(g)
    new = np.zeros_like(u)
    for i in range(cohort.n_items):
        left = projected(a[i]) + board.arrays["item_ridge"][i] * np.eye(rank)
        new[i] = np.linalg.solve(left + board.arrays["item_scale"][i] * extra, b[i])
    counts = board.arrays["item_counts"]
    return new / np.sqrt(np.sum(counts * np.sum(new**2, axis=1)) / counts.sum())


@pytest.mark.parametrize("feedback", list(Feedback))
def test_one_round_is_what_a_slow_obvious_version_computes(tmp_path: Path, feedback: Feedback) -> None:
    cohort = population(n_users=300)
    cohort = cohort if feedback is Feedback.EXPLICIT else presence(cohort)
    task = a_task(feedback=feedback, label_bound=4.0, clip_norm=2.0)
    board, noise = a_prepared_board(task), SeededNoise(3)
    requests = task.requests(board)
    sums = FactoredSums.of(task.contribute(cohort, board, requests))

    with Ledger.create(
        tmp_path / "l", Budget(epsilon=9.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    ) as ledger:
        booked = {r.name: r.release.book(ledger, noise) for r in requests}
    new = task.update(board, NoisedSums(sums=sums, requests=requests, booked=booked)).arrays["item_factors"]

    expected = obvious_round(task, cohort, board, noise)
    assert np.linalg.norm(new - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ALL_SCHEMES)
@pytest.mark.parametrize("feedback", list(Feedback))
def test_no_user_moves_a_sum_by_more_than_the_booked_bound(scheme: WeightScheme, feedback: Feedback) -> None:
    cohort = population() if feedback is Feedback.EXPLICIT else presence(population())
    task = a_task(weights=scheme, feedback=feedback, clip_norm=0.3)
    largest = largest_shares(task, cohort, boards_of_all_stages(task))

    assert max(largest.values()) <= 1.0
    # The bound is not idle either: some user spends nearly all of what her weighting lets her.
    if not scheme.samples:
        assert min(share for name, share in largest.items() if name.endswith("quadratic")) > 0.95


def test_items_outside_the_head_get_no_weight_and_no_factors(cohort: Cohort, tmp_path: Path) -> None:
    task = a_task(head_fraction=0.4)
    budget = Budget(epsilon=9.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(tmp_path / "l", budget) as ledger:
        *_, board = through(task, cohort, ledger)

    learnt = board.arrays["learnt"] != 0
    assert learnt.sum() == 10
    assert np.all(board.arrays["item_factors"][~learnt] == 0.0)
    assert np.all(np.any(board.arrays["item_factors"][learnt] != 0.0, axis=1))
    # Unit gauge: one clip_norm means the same in every round.
    squares = np.sum(board.arrays["item_factors"].astype(np.float64) ** 2, axis=1)
    assert np.average(squares, weights=board.arrays["item_counts"]) == pytest.approx(1.0, rel=1e-5)
    weights = task.weigh(cohort, board)
    assert np.all(weights[~learnt[cohort.items]] == 0.0)
    squares = np.bincount(cohort.user_of_entry(), weights=weights**2, minlength=N_USERS)
    rated_head = np.bincount(cohort.user_of_entry(), weights=learnt[cohort.items], minlength=N_USERS) > 0
    np.testing.assert_allclose(squares[rated_head], 1.0)


@pytest.mark.parametrize("clip_norm", [0.5, 2.0])
def test_the_pull_on_items_is_in_units_of_the_squared_clipping_norm(clip_norm: float) -> None:
    settings = replace(a_task().settings, clip_norm=clip_norm, item_ridge=3.0, item_ridge_exponent=0.25)
    counts = np.array([1.0, 10.0, 500.0])

    ridge = item_ridge_of(counts, settings)

    assert np.average(ridge, weights=counts + 1) == pytest.approx(3.0 * clip_norm**2)
    np.testing.assert_allclose(ridge[1:] / ridge[0], [5.5**0.25, 250.5**0.25])


def test_the_paper_s_scale_and_unobserved_term_are_a_choice() -> None:
    usual, paper = a_task(), a_task(unit_gauge=False, weighted_unobserved=False, first_norm=0.2)
    counts = np.random.default_rng(0).integers(1, 40, 30).astype(np.float64)
    omega, factors = counts**-0.5, np.full((30, 4), 0.3, dtype=np.float32)

    later = {"unit_gauge", "weighted_unobserved", "first_norm"}
    assert not later & set(usual.config)
    assert {key: paper.config[key] for key in later} == {
        "unit_gauge": False,
        "weighted_unobserved": False,
        "first_norm": 0.2,
    }
    assert from_written(paper.config, AdaDpalsConfig) == paper.settings
    np.testing.assert_array_equal(gauged(paper.settings, factors, counts), factors)
    assert np.sum(np.square(gauged(usual.settings, factors, counts)), axis=1) == pytest.approx(1.0)
    np.testing.assert_array_equal(unobserved_scale(paper.settings, omega, counts), np.ones(30))
    scale = unobserved_scale(usual.settings, omega, counts)
    assert np.average(scale, weights=counts) == pytest.approx(1.0)
    assert scale / scale[0] == pytest.approx(omega / omega[0])
    boards = [task.first_board(a_prepared_board(usual).catalogue) for task in (usual, paper)]
    first, small = (board.arrays["item_factors"] for board in boards)
    np.testing.assert_allclose(small, 0.2 * first, rtol=1e-6)
    with pytest.raises(InputError, match="first_norm"):
        a_task(first_norm=0.0)


def test_a_release_without_calibrated_noise_is_refused() -> None:
    with pytest.raises(PrivacyError, match="calibrate"):
        AdaDpals(AdaDpalsConfig()).plan()
