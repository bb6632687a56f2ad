"""Residual alternating minimisation against a slow, obvious version of its formulas, from the first board on."""

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.config import (
    Curvature,
    ResidualShares,
    StageKind,
    Start,
    stage_of,
)
from fedboard.common.algorithms.shared.levels import likely_counts
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ItemBlockSolver
from fedboard.server.runtime import NoisedSums
from tests.common.algorithms.conftest import (
    N_ITEMS,
    PRESENCE,
    SPREAD,
    a_residual_task,
    booked_run,
    population,
    presence,
    residual_boards,
    with_taste,
)
from tests.common.algorithms.residual import obvious_rounds as obvious
from tests.common.algorithms.residual.obvious_contributions import row_of

NOISE = SeededNoise(9)
CLOSE = 1e-5


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert np.linalg.norm(found - expected) <= CLOSE * np.linalg.norm(expected)


def alike(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Each column of ``expected`` with the sign that it has in ``found``: an axis has no direction."""
    return np.where(np.sum(found * expected, axis=0) < 0, -1.0, 1.0)


VARIANTS: dict[str, dict[str, object]] = {
    "as it comes": {},
    "a wide range": {"rating_low": -7.0, "rating_high": 9.0},
    "clipped by quantile": {"clip_quantile": 0.6, "clip_norm": 0.5, "bias_clip_norm": 0.7},
    "neither evidence nor memory": {"ridge_evidence": False, "bias_memory": 0.0},
    "every constant another": {
        "iterate_memory": 0.3,
        "step": 0.8,
        "bias_scale": 0.7,
        "vector_bound": 1.1,
        "user_ridge_exponent": 0.1,
        "weight_exponent": 0.4,
        "noise_variance": 0.5,
    },
    "matrices every round": {"curvature": Curvature.RELEASED},
    "spectral start": {"start": Start.SPECTRAL},
    "only the head": {"head_fraction": 0.6, "prior_inflation": 1.5},
    "ratings alike": {},
    "presence": {**PRESENCE, "clip_quantile": 0.5},
    "presence, spectral start": {**PRESENCE, "start": Start.SPECTRAL},
    "presence, matrices every round": {**PRESENCE, "curvature": Curvature.RELEASED, "head_fraction": 1.0},
}

WITHOUT_TASTE = {"ratings alike"}
"""Where ratings have no structure."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_round_of_a_run_is_what_a_slow_obvious_version_computes(tmp_path: Path, variant: str) -> None:
    cohort = population(n_users=100)
    if VARIANTS[variant].get("feedback") is not None:
        cohort = presence(cohort)
    elif variant not in WITHOUT_TASTE:
        cohort = with_taste(cohort)
    # Much of the budget for the moments: of so few users they would be noise, and errors grow as they are inverted.
    task = a_residual_task(60.0, shares=ResidualShares(moment=0.5), **VARIANTS[variant])
    boards = booked_run(task, cohort, tmp_path, epsilon=60.0, noise=NOISE)

    assert len(boards) == len(task.plan()) + 1
    for board, after in itertools.pairwise(boards[1:]):
        stage = stage_of(board.version, task.settings)
        if stage.kind is StageKind.BIASES:
            expected = obvious.bias_round(task, cohort, board, NOISE)
        elif stage.kind is StageKind.ALTERNATION:
            expected = obvious.alternation(task, cohort, board, NOISE, t=stage.alternation)
            signs = alike(after.arrays["item_factors"], expected["item_factors"])
            expected["item_factors"] = expected["item_factors"] * signs
        else:
            continue
        for name, values in expected.items():
            assert_close(after.arrays[name].astype(np.float64), values)
        for name in ("explores", "user_ridge", "ridge_evidence", "bias_measured", "bias_precisions"):
            assert (name in expected) or name not in after.arrays or after.arrays[name] is board.arrays[name]


def expected_after(
    task: Residual, cohort: Cohort, board: Board, t: int
) -> tuple[Board, dict[str, np.ndarray]]:
    """The board after an alternation with the noise of the plan, and what the obvious version makes of it."""
    requests = task.requests(board)
    sums = Trusted().combine([Trusted().encode(task.contribute(cohort, board, requests), requests)], requests)
    budget = Budget(epsilon=1000.0, delta=1e-5, adjacency=task.settings.shared.adjacency)
    with tempfile.TemporaryDirectory() as folder, Ledger.create(Path(folder) / "l", budget) as ledger:
        booked = {r.name: r.release.book(ledger, NOISE) for r in requests}
        after = task.update(board, NoisedSums(sums=sums, requests=requests, booked=booked))
    expected = obvious.alternation(task, cohort, board, NOISE, t=t)
    signs = alike(after.arrays["item_factors"], expected["item_factors"])
    return after, {**expected, "item_factors": expected["item_factors"] * signs}


def a_later_board(task: Residual, *, empty: list[int], evidence: float) -> Board:
    """Before the third alternation, with nothing learnt along some coordinates yet."""
    board, rng = residual_boards(task)[4], np.random.default_rng(3)
    factors = np.array(board.arrays["item_factors"])
    factors[:, empty] = 0.0
    biases = board.arrays["item_biases"]
    return replace(
        board,
        arrays={
            **board.arrays,
            "item_factors": factors,
            "ridge_evidence": np.full(7, evidence),
            "bias_measured": (biases + rng.normal(0.0, 0.2, biases.size)).astype(np.float32),
            "bias_precisions": rng.uniform(10.0, 40.0, biases.size).astype(np.float32),
        },
        _digest=[],
    )


@pytest.mark.parametrize("rounds", [4, 6])
@pytest.mark.parametrize("empty", [[], [1], [0, 1, 2]])
def test_until_two_thirds_of_the_run_what_is_empty_is_measured_along_new_directions(
    empty: list[int], rounds: int
) -> None:
    task, cohort = (
        a_residual_task(60.0, rounds=rounds, moments_share=0.1),
        with_taste(population(n_users=150)),
    )
    board = a_later_board(task, empty=empty, evidence=-1e3)

    after, expected = expected_after(task, cohort, board, 3)

    for name, values in expected.items():
        assert_close(after.arrays[name].astype(np.float64), values)
    vectors = task.contribute(cohort, board, task.requests(board)).vectors
    assert vectors is not None
    measured = vectors[cohort.counts > 1, 1:].any(axis=0)
    assert [a for a in range(3) if not measured[a]] == ([] if rounds == 6 else empty)


@pytest.mark.slow
@pytest.mark.parametrize("evidence", [-1e3, 1e3])
def test_factors_that_predict_worse_than_none_are_dropped_from_the_third_alternation_on(
    evidence: float,
) -> None:
    task, cohort = a_residual_task(60.0), with_taste(population(n_users=150))
    board = a_later_board(task, empty=[], evidence=evidence)

    after, expected = expected_after(task, cohort, board, 3)

    for name, values in expected.items():
        assert_close(after.arrays[name].astype(np.float64), values)
    assert bool(after.arrays["item_factors"].any()) == (evidence < 0)
    assert np.std(after.arrays["item_biases"]) > 0.1
    # The ridge of before stays where no candidate is any good.
    kept = after.arrays["user_ridge"] == board.arrays["user_ridge"]
    assert bool(kept[0]) == (evidence > 0)
    early, _ = expected_after(task, cohort, replace(board, version=3, _digest=[]), 2)
    assert early.arrays["item_factors"].any()


def test_public_features_of_the_items_join_the_prior(tmp_path: Path) -> None:
    cohort, features = population(n_users=120), np.random.default_rng(5).standard_normal((N_ITEMS, 2))
    liked = np.clip(np.rint(3.0 + features[cohort.items, 0] + 0.5 * (cohort.ratings - 3.0)), 1.0, 5.0)
    cohort = replace(cohort, ratings=liked.astype(np.float32))
    task = replace(a_residual_task(60.0, rounds=1, moments_share=0.1), features=features)

    boards = booked_run(task, cohort, tmp_path, epsilon=60.0, noise=NOISE)

    expected = obvious.alternation(task, cohort, boards[2], NOISE, t=1)["item_biases"]
    without = obvious.alternation(replace(task, features=None), cohort, boards[2], NOISE, t=1)["item_biases"]
    assert boards[2].arrays["explores"].tolist() == [1.0]
    assert_close(boards[3].arrays["item_biases"], expected)
    assert np.linalg.norm(expected - without) > 100 * CLOSE * np.linalg.norm(expected)


def noise_of(task: Residual, name: str, size: int = 1) -> np.ndarray:
    """In units of the sensitivity."""
    return task.settings.shared.noise_multipliers[name] * NOISE.stream(name).normal(0, size)


def prepared(task: Residual, cohort: Cohort) -> Board:
    """The board after the preparation alone."""
    board = task.first_board(Catalogue(item_ids=tuple(map(str, range(cohort.n_items)))))
    requests = task.requests(board)
    sums = whole_sums(FactoredSums.of(task.contribute(cohort, board, requests)), requests)
    units = {r.name: NOISE.stream(r.name).normal(0, sums[r.name].size) for r in requests}
    real = {
        r.name: (sums[r.name] + r.release.noise_stddev * units[r.name].reshape(sums[r.name].shape))
        * r.release.grid_step
        for r in requests
    }
    return task.update(board, _Given(real))


@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_the_preparation_is_the_level_of_ratings_and_even_counts(epsilon: float) -> None:
    """Mean and variance in half widths of the range, each pulled to the usual by how unsure it is."""
    cohort = population(n_users=120)
    task = a_residual_task(epsilon)

    arrays = prepared(task, cohort).arrays

    told, even = np.zeros(3), np.zeros(N_ITEMS)
    for j in range(cohort.n_users):
        own = cohort.rows(j, j + 1)
        if own.n_ratings:
            apart = (own.ratings.astype(np.float64) - 3.0) / 2.0
            told += [1.0, np.mean(apart), np.mean(apart**2)]
            even[own.items] += 1.0 / np.sqrt(own.n_ratings)
    sigma = np.sqrt(3.0) * task.settings.shared.noise_multipliers["moments"]
    told += np.sqrt(3.0) * noise_of(task, "moments", 3)
    users = max(told[0], sigma, 1.0)
    doubt = (sigma / users) ** 2
    mean = np.clip(told[1] / users, -1.0, 1.0) * 0.25 / (0.25 + doubt)
    variance = 0.2 + (np.clip(told[2] / users, 0.0, 1.0) - mean**2 - 0.2) * 0.01 / (0.01 + 2 * doubt)
    assert arrays["mean"][0] == pytest.approx(3.0 + 2.0 * mean, rel=1e-3)
    assert arrays["spread"][0] == pytest.approx(2.0 * np.clip(np.sqrt(max(variance, 0)), 0.1, 1.0), rel=1e-3)
    assert arrays["population"][0] == pytest.approx(users, rel=1e-3)
    stddev = task.settings.shared.noise_multipliers["counts"]
    shares = likely_counts(even + noise_of(task, "counts", N_ITEMS), stddev=stddev).mean
    of_rating = min(users / max(shares.sum(), 1.0), 1.0)
    np.testing.assert_allclose(arrays["item_counts"], np.maximum(shares / of_rating, 0.05), rtol=5e-3)
    trusted = np.maximum(arrays["item_counts"], 0.3 * stddev / of_rating)
    np.testing.assert_allclose(arrays["item_weights"], trusted**-task.settings.weight_exponent, rtol=5e-3)
    assert np.all(arrays["learnt"] == 1)


def test_the_preparation_of_presence_is_counts_and_number_of_users() -> None:
    cohort = presence(population(n_users=120))
    task = a_residual_task(20.0, **{**PRESENCE, "head_fraction": 1.0})
    s = task.settings

    arrays = prepared(task, cohort).arrays

    counts = np.zeros(N_ITEMS)
    for j in range(cohort.n_users):
        own = cohort.rows(j, j + 1)
        counts[own.items] += min(1.0, np.sqrt(s.shared.count_cap / max(own.n_ratings, 1)))
    counts = np.maximum(counts + np.sqrt(s.shared.count_cap) * noise_of(task, "counts", N_ITEMS), 1.0)
    users = np.count_nonzero(cohort.counts) + noise_of(task, "users")[0]
    assert arrays["population"][0] == pytest.approx(users, rel=1e-3)
    np.testing.assert_allclose(arrays["item_counts"], counts, rtol=2e-3)
    np.testing.assert_allclose(arrays["item_weights"], arrays["item_counts"] ** -s.weight_exponent)
    assert np.all(arrays["learnt"] == 1)
    assert arrays["mean"].tolist() == [0.0]
    assert "spread" not in arrays


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
            row = row_of(task, own, board, t=0, clip_norm=4.0 * SPREAD)
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
    """Sums in real units; their noise is what the requests say, or so many times as large."""

    def __init__(self, arrays: dict[str, np.ndarray], noise_ratio: float = 1.0) -> None:
        self.arrays, self.noise_ratio = arrays, noise_ratio

    def array(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> np.ndarray:
        return solver(0, {name: self.arrays[name] for name in names})


@pytest.mark.parametrize("epsilon", [10.0, 40.0, 160.0])  # with 40, what a round is worth hangs on its noise
@pytest.mark.parametrize(
    "variant", ["as it comes", "matrices every round", "presence", "presence, matrices every round"]
)
def test_noise_that_is_twice_as_large_is_taken_for_what_it_is_in_every_round(
    variant: str, epsilon: float
) -> None:
    """Twice the noise of a plan is the noise of a plan with twice the multipliers, and is believed as little."""
    task = a_residual_task(epsilon, **VARIANTS[variant])
    shared = task.settings.shared
    multipliers = {name: 2.0 * z for name, z in shared.noise_multipliers.items()}
    louder = Residual(replace(task.settings, shared=replace(shared, noise_multipliers=multipliers)))
    cohort = population(n_users=100)
    cohort = presence(cohort) if shared.feedback is Feedback.IMPLICIT else with_taste(cohort)
    for board in residual_boards(task):
        requests = task.requests(board)
        sums = whole_sums(FactoredSums.of(task.contribute(cohort, board, requests)), requests)
        arrays = {r.name: sums[r.name] * r.release.grid_step for r in requests}

        expected, found, once = (
            one.update(board, _Given(arrays, ratio)).arrays
            for one, ratio in ((louder, 1.0), (task, 2.0), (task, 1.0))
        )

        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{name} after board {board.version}")
        if stage_of(board.version, task.settings).alternation:
            assert (found["item_biases"] != once["item_biases"]).any() or "presence" in variant
            assert (found["item_factors"] != once["item_factors"]).any()


@pytest.mark.slow
@pytest.mark.parametrize("start", list(Start))
@pytest.mark.parametrize("n_items", [1, 2])
def test_a_run_with_hardly_any_items_or_users_goes_through(
    tmp_path: Path, start: Start, n_items: int
) -> None:
    task = a_residual_task(5.0, start=start, curvature=Curvature.RELEASED)

    for n_users in (0, 1, 40):
        folder = tmp_path / str(n_users)
        folder.mkdir()
        cohort = population(n_users=40, n_items=n_items).rows(0, n_users)
        boards = booked_run(task, cohort, folder, epsilon=5.0)
        assert all(np.isfinite(values).all() for values in boards[-1].arrays.values())
