"""Means, quantiles, risks, regressions: what one user can move is what the noise covers, and answers are right."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedboard.common.errors import BudgetExceededError, InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.queries.quantile import Target
from research.epasto.bounding import GRID_BOUND, PublicSizes, WeightedMean, WeightedQuantile, on_grid
from research.epasto.labels import (
    LinearEstimator,
    best_matrix,
    least_squares_matrix,
    limited_rows,
)
from research.epasto.risk import WeightedRisk

RNG = np.random.default_rng(0)
SIZES = PublicSizes(sizes=np.array([1, 1, 2, 3, 8, 30]), public_because="they are made up")
USERS = np.repeat(np.arange(6), SIZES.sizes)
MEAN = WeightedMean(sizes=SIZES, bound=2.5, low=-1.0, high=4.0)
QUANTILE = WeightedQuantile(sizes=SIZES, bound=2.5, target=Target(0.3), candidates=np.linspace(0, 1, 11))
FEATURES = RNG.normal(size=(USERS.size, 3))
EXTREMES = (-1e9, -1.0, 0.5, 4.0, 1e9)


@pytest.fixture
def values_ledger(tmp_path: Path) -> Iterator[Ledger]:
    budget = Budget(epsilon=100.0, delta=1e-6, adjacency=Adjacency.REPLACE_VALUES)
    with Ledger.create(tmp_path / "values.ledger", budget) as ledger:
        yield ledger


@pytest.fixture
def labels_ledger(tmp_path: Path) -> Iterator[Ledger]:
    budget = Budget(epsilon=100.0, delta=1e-6, adjacency=Adjacency.REPLACE_LABELS)
    with Ledger.create(tmp_path / "labels.ledger", budget) as ledger:
        yield ledger


def estimator(matrix: np.ndarray | None = None) -> LinearEstimator:
    return LinearEstimator(
        matrix=least_squares_matrix(FEATURES) if matrix is None else matrix,
        features=FEATURES,
        users=USERS,
        label_range=(-1.0, 4.0),
        public_because="they are made up",
    )


def exchanges(values: np.ndarray) -> Iterator[np.ndarray]:
    """The values with those of one user all at an extreme, for each user and extreme."""
    for user in range(SIZES.sizes.size):
        for extreme in EXTREMES:
            yield np.where(user == USERS, extreme, values)


def largest_move(question: WeightedMean | LinearEstimator) -> int:
    """L1 move of the exact sums between data sets that differ by one user's values, grid units."""
    moves = []
    for values in exchanges(RNG.normal(size=USERS.size)):
        for user in range(SIZES.sizes.size):
            for extreme in EXTREMES:
                other = np.where(user == USERS, extreme, values)
                parts = []
                for one in (values, other):
                    given = (
                        question.contributions(one, USERS)
                        if isinstance(question, WeightedMean)
                        else question.contributions(one)
                    )
                    assert np.abs(given).sum(axis=1).max() <= GRID_BOUND
                    parts.append(given.sum(axis=0))
                moves.append(int(np.abs(parts[0] - parts[1]).sum()))
    return max(moves)


def test_exchanging_a_users_values_moves_the_mean_by_what_the_noise_covers_and_the_bound_is_reached() -> None:
    release = MEAN.release("mean", epsilon=0.5)

    assert largest_move(MEAN) <= release.l1_sensitivity
    assert largest_move(MEAN) >= 0.999 * release.l1_sensitivity  # half of it would not be enough
    # In real units that is B times the largest total weight: the paper's lemma 1.
    real = release.noise_scale * release.grid_step
    assert real == pytest.approx(5.0 * SIZES.user_weights(2.5).max() / 0.5)


def test_unweighted_values_would_break_the_bound_of_the_mean() -> None:
    unbounded = replace(MEAN, bound=30.0)
    scaled = unbounded.contributions(np.where(USERS == 5, 4.0, 0.0), USERS).sum() * (
        unbounded.largest_contribution / MEAN.largest_contribution
    )

    assert 2 * scaled > MEAN.release("mean", epsilon=1.0).l1_sensitivity


def test_the_private_mean_is_the_weighted_mean_and_noise_of_the_stated_scale(values_ledger: Ledger) -> None:
    values = RNG.normal(1.0, 1.0, USERS.size)
    exact = float(np.clip(values, -1.0, 4.0) @ SIZES.value_weights(2.5)[USERS])
    answer = MEAN.answer(values, USERS, name="m", epsilon=40.0, ledger=values_ledger, noise=SeededNoise(0))
    total = MEAN.contributions(values, USERS).sum() * MEAN.release("m", epsilon=1.0).grid_step + 1.5

    assert total == pytest.approx(exact, abs=1e-9)
    assert abs(answer - exact) < 12 * 5.0 / 40.0
    assert values_ledger.spent().epsilon == pytest.approx(40.0)
    assert "they are made up" in values_ledger.events()[0]["covers"]


def test_an_account_for_presence_does_not_pay_for_questions_with_public_sizes(tmp_path: Path) -> None:
    budget = Budget(epsilon=100.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
    with (
        Ledger.create(tmp_path / "presence.ledger", budget) as ledger,
        pytest.raises(PrivacyError, match="adjacency replace-values"),
    ):
        MEAN.answer(np.zeros(USERS.size), USERS, name="m", epsilon=1.0, ledger=ledger, noise=SecureNoise())


def test_values_of_other_sizes_than_declared_are_refused() -> None:
    for users in (USERS[:-1], np.zeros_like(USERS), USERS + 1):
        with pytest.raises(InputError, match="declared contribution sizes"):
            MEAN.contributions(np.zeros(users.size), users)
    with pytest.raises(PrivacyError, match="NaN"):
        MEAN.contributions(np.full(USERS.size, math.nan), USERS)


def test_exchanging_a_users_values_moves_no_penalty_by_more_than_the_choice_covers() -> None:
    stated = QUANTILE.release("q", epsilon=1.0).score_sensitivity
    largest = 0
    for _ in range(30):
        values = RNG.random(USERS.size)
        before = QUANTILE.target.penalties(QUANTILE.histogram(values, USERS))
        for other in exchanges(values):
            after = QUANTILE.target.penalties(QUANTILE.histogram(other, USERS))
            largest = max(largest, max(abs(a - b) for a, b in zip(before, after, strict=True)))

    assert largest <= stated
    assert largest > 0.5 * stated


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_user_who_comes_goes_or_is_exchanged_moves_penalties_by_at_most_the_sensitivity(
    adjacency: Adjacency, share: float
) -> None:
    target, weight, rng = Target(share), 100, np.random.default_rng(1)
    rows = [np.eye(5, dtype=int)[cell] * size for cell in range(5) for size in (0, 50, 100)]
    largest = 0
    for _ in range(40):
        others = rng.integers(0, 300, 5)
        start = [np.zeros(5, dtype=int)] if adjacency is Adjacency.ADD_REMOVE else rows
        for before in start:
            for after in rows:
                pair = [target.penalties([int(x) for x in others + row]) for row in (before, after)]
                largest = max(largest, max(abs(a - b) for a, b in zip(*pair, strict=True)))

    assert largest <= target.sensitivity(weight, adjacency)
    assert largest > 0.9 * target.sensitivity(weight, adjacency)


def test_a_quantile_with_little_noise_is_the_quantile(values_ledger: Ledger) -> None:
    values = np.linspace(0.0, 1.0, USERS.size)
    question = replace(QUANTILE, bound=30.0, candidates=np.linspace(0, 1, 101))
    answer = question.answer(
        values, USERS, name="q", epsilon=90.0, ledger=values_ledger, noise=SeededNoise(0)
    )

    assert answer == pytest.approx(np.quantile(values, 0.3), abs=0.15)


def test_the_base_distribution_decides_where_the_data_say_nothing(values_ledger: Ledger) -> None:
    question = replace(QUANTILE, base=(*([1] * 10), 10**9))

    found = [
        question.answer(
            RNG.random(USERS.size),
            USERS,
            name=str(n),
            epsilon=1e-6,
            ledger=values_ledger,
            noise=SecureNoise(),
        )
        for n in range(5)
    ]
    assert found == [1.0] * 5


@pytest.mark.parametrize("ridge", [0.01, 0.3])
def test_exchanging_a_users_rows_moves_the_minimiser_by_what_the_noise_covers(
    ridge: float,
) -> None:
    question = WeightedRisk(sizes=SIZES, bound=2.5, ridge=ridge)
    release = question.release("theta", width=3, noise_multiplier=1.0)
    covered = release.l2_sensitivity * release.grid_step
    largest, rng = 0.0, np.random.default_rng(2)
    for _ in range(30):
        labels = rng.choice([-1.0, 1.0], USERS.size)
        features = 0.2 * rng.normal(size=(USERS.size, 3))
        before = question.minimise(features, labels, USERS)
        for user in (4, 5):
            mine, direction = user == USERS, rng.normal(size=3)
            changed = np.where(mine[:, None], 1e3 * direction, features)
            after = question.minimise(changed, np.where(mine, -labels, labels), USERS)
            largest = max(largest, float(np.linalg.norm(after - before)))

    assert largest <= covered
    if ridge == 0.3:
        assert largest > 0.1 * covered  # a tenth of the noise would not cover it


def test_the_minimiser_is_where_the_gradient_vanishes() -> None:
    labels = np.sign(FEATURES[:, 0])
    rows = FEATURES / np.maximum(np.linalg.norm(FEATURES, axis=1, keepdims=True), 1.0)
    weights = SIZES.value_weights(2.5)[USERS]
    logistic = WeightedRisk(sizes=SIZES, bound=2.5, ridge=0.01).minimise(FEATURES, labels, USERS)
    gradient = 0.01 * logistic - rows.T @ (weights * labels / (1 + np.exp(labels * (rows @ logistic))))
    assert np.linalg.norm(gradient) < 1e-9


def crowd(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, 5)) / 3
    return features, np.where(rng.random(n) < 1 / (1 + np.exp(-3 * features[:, 0])), 1.0, -1.0)


def exact_distance(theta: np.ndarray, rows: np.ndarray, labels: np.ndarray, ridge: float) -> float:
    """Bound on the distance from the minimiser, its gradient in 80-bit numbers; every row weighs the same."""
    margins = labels * (rows.astype(np.longdouble) @ theta.astype(np.longdouble))
    pulls = labels / (1 + np.exp(margins)) / labels.size
    return float(np.linalg.norm((ridge * theta - pulls @ rows).astype(np.float64))) / ridge


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.1, 0.001])
def test_no_data_make_a_risk_refuse_and_what_the_solver_leaves_is_booked(ridge: float) -> None:
    n = 20_000
    sizes = PublicSizes(sizes=np.ones(n, dtype=np.int64), public_because="one row each")
    question = WeightedRisk(sizes=sizes, bound=1.0, ridge=ridge)
    covered = question.shortfall(5) * question.move
    for seed in range(12):
        features, labels = crowd(n, seed)
        rows = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
        for flipped in (1.0, -1.0):
            labels[0] *= flipped
            theta = question.minimise(
                features, labels, np.arange(n)
            )  # raised for some of these, not for others
            assert exact_distance(theta, rows, labels, ridge) <= covered

    release = question.release("theta", width=5, noise_multiplier=1.0)
    assert release.l2_bound * release.grid_step >= question.move + covered + 2 * release.grid_step
    assert question.shortfall(5) < 1e-4  # and costs next to nothing


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e200])
@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 1e3])
def test_the_solver_ends_for_data_that_are_as_hard_as_can_be(scale: float, ridge: float) -> None:
    question = WeightedRisk(sizes=SIZES, bound=30.0, ridge=ridge)
    direction = np.array([1.0, 1e-3, 0.0])
    separated = np.where(np.arange(USERS.size) % 2 == 0, 1.0, -1.0)
    for labels in (separated, np.ones(USERS.size), np.where(USERS == 5, 1.0, -1.0)):
        features = scale * separated[:, None] * direction
        theta = question.minimise(features, labels, USERS)
        lengths = np.linalg.norm(features / scale, axis=1, keepdims=True) * scale
        rows = features / np.maximum(lengths, 1.0)

        assert exact_distance(theta, rows, labels, ridge) <= question.shortfall(3) * question.move


def test_only_public_numbers_decide_whether_a_risk_can_be_solved() -> None:
    many = PublicSizes(sizes=np.array([10**9, 1]), public_because="they are made up")
    question = WeightedRisk(sizes=many, bound=1.0, ridge=1e-6)

    with pytest.raises(InputError, match="larger ridge"):
        question.release("theta", width=3, noise_multiplier=1.0)
    assert replace(question, ridge=1.0).release("theta", width=3, noise_multiplier=1.0)


def test_a_private_risk_has_gaussian_noise_of_the_booked_deviation(values_ledger: Ledger) -> None:
    question = WeightedRisk(sizes=SIZES, bound=2.5, ridge=1.0)
    labels = np.sign(FEATURES[:, 0])
    exact = question.minimise(FEATURES, labels, USERS)
    release = question.release("x", width=3, noise_multiplier=20.0)
    found = np.array(
        [
            question.answer(
                FEATURES,
                labels,
                USERS,
                name=str(n),
                noise_multiplier=20.0,
                ledger=values_ledger,
                noise=SeededNoise(0),
            )
            for n in range(40)
        ]
    )
    deviation = release.noise_stddev * release.grid_step

    assert deviation == pytest.approx(20.0 * 2 * SIZES.user_weights(2.5).max(), rel=1e-4)
    scaled = ((found - exact) / deviation).ravel()
    assert stats.kstest(scaled, "norm").pvalue > 1e-6
    assert stats.kstest(0.2 * scaled, "norm").pvalue < 1e-6


def test_a_risk_without_a_ridge_is_refused() -> None:
    with pytest.raises(InputError):
        replace(WeightedRisk(sizes=SIZES, bound=1.0, ridge=1.0), ridge=0.0)


def test_labels_of_a_logistic_risk_are_signs() -> None:
    question = WeightedRisk(sizes=SIZES, bound=1.0, ridge=1.0)
    with pytest.raises(InputError, match="-1 or 1"):
        question.minimise(FEATURES, np.zeros(USERS.size), USERS)
    with pytest.raises(PrivacyError, match="finite"):
        question.minimise(FEATURES * math.inf, np.ones(USERS.size), USERS)


def test_exchanging_a_users_labels_moves_the_coefficients_by_what_the_noise_covers() -> None:
    release = estimator().release("c", epsilon=2.0)

    assert 0.3 * release.l1_sensitivity <= largest_move(estimator()) <= release.l1_sensitivity
    assert release.noise_scale * release.grid_step == pytest.approx(estimator().noise_scale(2.0))


def test_with_one_feature_labels_of_opposite_signs_reach_the_bound() -> None:
    feature = FEATURES[:, :1]
    one = replace(estimator(), features=feature, matrix=least_squares_matrix(feature))
    up = np.where(one.matrix[0] > 0, 4.0, -1.0)
    shares = np.bincount(USERS, weights=np.abs(one.matrix[0]))
    moves = [
        abs(one.contributions(up).sum() - one.contributions(np.where(user == USERS, 3.0 - up, up)).sum())
        for user in (int(shares.argmax()), int(shares.argmin()))
    ]
    stated = one.release("c", epsilon=1.0).l1_sensitivity

    assert 0.999999 * stated <= moves[0] <= stated
    assert moves[1] < 0.5 * stated


def test_private_coefficients_are_those_of_least_squares_and_noise(labels_ledger: Ledger) -> None:
    labels = np.clip(FEATURES @ [0.5, -0.2, 0.1] + 1.5, -1.0, 4.0)
    exact = np.linalg.lstsq(FEATURES, labels, rcond=None)[0]
    found = estimator().answer(labels, name="c", epsilon=90.0, ledger=labels_ledger, noise=SecureNoise())

    assert np.abs(found - exact).max() < 25 * estimator().noise_scale(90.0)
    assert labels_ledger.events()[0]["adjacency"] == "replace-labels"
    with pytest.raises(BudgetExceededError):
        estimator().answer(labels, name="d", epsilon=90.0, ledger=labels_ledger, noise=SecureNoise())


def test_the_best_matrix_is_unbiased_and_better_than_every_sample_limit() -> None:
    pytest.importorskip("cvxpy")
    matrix = best_matrix(FEATURES, USERS, label_variance=0.5, label_width=5.0, epsilon=1.0)
    best = estimator(matrix).variance(label_variance=0.5, epsilon=1.0)

    assert np.abs(matrix @ FEATURES - np.eye(3)).max() < 1e-9
    for limit in range(1, 31):
        rows = limited_rows(USERS, limit, np.random.default_rng(limit))
        limited = estimator(least_squares_matrix(FEATURES, rows))
        assert best <= limited.variance(label_variance=0.5, epsilon=1.0)
    rng = np.random.default_rng(3)
    for size in (1e-2, 1e-3):
        step = size * rng.normal(size=matrix.shape)
        step -= step @ FEATURES @ least_squares_matrix(FEATURES)  # stays unbiased
        nearby = estimator(matrix + step).variance(label_variance=0.5, epsilon=1.0)
        assert best <= nearby * (1 + 1e-5)


def test_limited_rows_are_at_most_the_limit_of_each_user_and_as_many_as_there_are() -> None:
    rows = limited_rows(USERS, 3, np.random.default_rng(0))

    assert np.array_equal(np.bincount(USERS[rows]), np.minimum(SIZES.sizes, 3))
    assert np.all(np.diff(rows) > 0)


def test_a_biased_matrix_and_undetermined_rows_are_refused() -> None:
    with pytest.raises(InputError, match="identity"):
        estimator(0.9 * least_squares_matrix(FEATURES))
    with pytest.raises(InputError, match="do not determine"):
        least_squares_matrix(FEATURES, np.array([0, 1]))
    with pytest.raises(PrivacyError, match="public_because"):
        replace(estimator(), public_because="")


def test_numbers_beyond_their_bound_never_reach_the_grid() -> None:
    with pytest.raises(PrivacyError):
        on_grid(np.array([[0.6, 0.6]]))
    with pytest.raises(PrivacyError):
        on_grid(np.array([[math.nan, 0.0]]))
    thirds = on_grid(np.array([[1 / 3, -1 / 3, 1 / 3], [0.1, 0.2, 0.7 + 1e-16]]))
    assert np.abs(thirds).sum(axis=1).max() <= GRID_BOUND
