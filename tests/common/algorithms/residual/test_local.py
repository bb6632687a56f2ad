"""The device's own model in the residual task: what it minimises, predicts and ranks by.

Public features in the residual task: own models use them, and nothing that leaves a device does.

What users tell of ridges: bounded whatever they rated, and the ridge that follows.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.client.recommending.recommend import explain, recommend
from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.device import evidence_rows, user_ridge
from fedboard.common.algorithms.residual.releases import RIDGES, ROW_ONE, evidence_request
from fedboard.common.algorithms.shared.regression import content_of, content_vectors
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.errors import PrivacyError
from fedboard.common.item_features import CatalogueFeatures
from fedboard.common.kernels.solves import CONTENT_RIDGES
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.trusted import rows_within_bounds
from tests.common.algorithms.conftest import (
    N_ITEMS,
    PRESENCE,
    SPREAD,
    a_residual_task,
    exact_sums,
    population,
    presence,
    residual_boards,
    without,
)
from tests.common.algorithms.residual.test_bounds import with_ratings


def test_the_local_model_minimises_its_loss(cohort: Cohort) -> None:
    task = a_residual_task()
    board = residual_boards(task)[-1]

    local = task.fit_local(cohort, board)

    s, strength = task.settings, float(board.arrays["user_ridge"][0])
    assert strength != s.user_ridge * SPREAD**2  # the board's own is another one
    for j in range(cohort.n_users):
        own = cohort.rows(j, j + 1)
        u = board.arrays["item_factors"][own.items].astype(np.float64)
        left = own.ratings - 3.4 - board.arrays["item_biases"][own.items] - local[j, 0] - u @ local[j, 1:]
        growth = max(own.n_ratings, 1) ** s.user_ridge_exponent
        slope = np.append(
            growth * s.user_bias_ridge * local[j, 0] - left.sum(),
            growth * strength * local[j, 1:] - u.T @ left,
        )
        assert np.abs(slope).max() < 1e-3


def test_the_ridge_is_the_board_s_or_the_configured_one_in_squared_deviations_of_a_rating() -> None:
    task = a_residual_task(user_ridge=4.0)
    board = residual_boards(task)[-1]
    settings, told = task.settings, float(board.arrays["user_ridge"][0])
    untold = {name: values for name, values in board.arrays.items() if name != "user_ridge"}
    unspread = {name: values for name, values in untold.items() if name != "spread"}

    assert user_ridge(board, settings) == told
    assert user_ridge(replace(board, arrays=untold), settings) == pytest.approx(4.0 * SPREAD**2)
    assert user_ridge(replace(board, arrays=unspread), settings) == 4.0
    own = replace(settings, final_user_ridge=0.3)
    assert user_ridge(board, own) == told
    assert user_ridge(board.successor(), own) == pytest.approx(0.3 * SPREAD**2)


def test_what_a_board_of_presence_says_of_ridges_is_not_read() -> None:
    """No rule binds it there: a board could make own models of whom it likes."""
    task = a_residual_task(**PRESENCE)
    board = residual_boards(task)[-1]
    cohort = presence(population())
    said = {"user_ridge": np.array([-1.0]), "spread": np.array([7.0]), "explores": np.array([0.0])}

    other = replace(board, arrays={**board.arrays, **said}, _digest=[])

    np.testing.assert_array_equal(task.fit_local(cohort, other), task.fit_local(cohort, board))
    first = residual_boards(task)[2]
    told = replace(first, arrays={**first.arrays, **said}, _digest=[])
    for one, two in zip(
        *(vars_of(task.contribute(cohort, b, task.requests(b))) for b in (first, told)), strict=True
    ):
        np.testing.assert_array_equal(one, two)


def vars_of(rows: Contribution) -> tuple[object, ...]:
    return rows.weights, rows.vectors, rows.responses


def features(n_items: int = N_ITEMS) -> CatalogueFeatures:
    rng = np.random.default_rng(2)
    years = rng.integers(1930, 2020, (n_items, 1)).astype(np.float32)
    labels = (rng.random((n_items, 3)) < 0.4).astype(np.uint8)
    years[3], labels[3] = np.nan, 0  # nothing is known of this one
    return CatalogueFeatures(
        number_names=("year",), numbers=years, label_names=("g: a", "g: b", "g: c"), labels=labels
    )


def with_features(board: Board, told: CatalogueFeatures | None) -> Board:
    return replace(board, catalogue=replace(board.catalogue, features=told), _digest=[])


def finished(task: Residual) -> Board:
    return with_features(residual_boards(task)[-1].successor(), features())


def test_predictions_are_those_of_a_dense_gaussian_process(cohort: Cohort) -> None:
    task = a_residual_task(rating_low=-50.0, rating_high=50.0)
    board = finished(task)
    factors = board.arrays["item_factors"].astype(np.float64)
    base = 3.4 + board.arrays["item_biases"].astype(np.float64)
    phi = content_of(board)
    assert phi is not None
    phi = phi.astype(np.float64)
    everything = np.arange(N_ITEMS, dtype=np.int32)
    settings = task.settings
    for user in (1, 3, 5, int(np.argmin(np.where(cohort.counts > 0, cohort.counts, 99)))):
        own = cohort.rows(user, user + 1)
        growth = max(own.n_ratings, 1) ** settings.user_ridge_exponent
        strength = float(board.arrays["user_ridge"][0])
        board_part = 1 / (growth * settings.user_bias_ridge) + factors @ factors.T / (growth * strength)
        rated, left = own.items, own.ratings - base[own.items]

        def kernel(ridge: float, board_part: np.ndarray = board_part) -> np.ndarray:
            return board_part + phi @ phi.T / ridge

        evidence = []
        for ridge in (*CONTENT_RIDGES, np.inf):
            known = kernel(ridge)[np.ix_(rated, rated)] + np.eye(rated.size)
            quadratic = left @ np.linalg.solve(known, left)
            evidence.append(-0.5 * rated.size * np.log(quadratic) - 0.5 * np.linalg.slogdet(known)[1])
        shares = np.exp(np.array(evidence) - max(evidence))
        precision = (shares / shares.sum()) @ (1 / np.array([*CONTENT_RIDGES, np.inf]))
        dense = kernel(1 / precision)
        known = dense[np.ix_(rated, rated)] + np.eye(rated.size)
        expected = base + dense[:, rated] @ np.linalg.solve(known, left)

        local = task.fit_local(own, board)
        predicted = task.predict(local, board, np.zeros(N_ITEMS, np.int32), everything)

        np.testing.assert_allclose(predicted, expected, atol=2e-5)  # board and local models are of 32 bits


def test_recommendations_and_explanations_use_them(cohort: Cohort) -> None:
    task = a_residual_task(rating_low=-50.0, rating_high=50.0)
    board = finished(task)
    plain = with_features(board, None)
    own = cohort.where(cohort.items != 7).rows(5, 6)

    with_content = explain(own, board, 7)

    assert with_content.prediction != pytest.approx(explain(own, plain, 7).prediction, abs=1e-3)
    assert with_content.total == pytest.approx(with_content.prediction, abs=1e-4)
    scores = {one.item_id: one.score for one in recommend(own, board, k=N_ITEMS)}
    assert scores[board.catalogue.item_ids[7]] == pytest.approx(with_content.prediction, abs=1e-5)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)


def test_what_is_contributed_does_not_depend_on_them(cohort: Cohort) -> None:
    task = a_residual_task()
    for board in residual_boards(task)[1:]:
        requests = task.requests(board)
        plain = task.contribute(cohort, board, requests)
        told = task.contribute(cohort, with_features(board, features()), requests)
        for name in ("responses", "vectors", "weights"):
            np.testing.assert_array_equal(getattr(plain, name), getattr(told, name))


@pytest.mark.parametrize("n_numbers", [2, 40])
def test_any_table_gives_bounded_content(n_numbers: int) -> None:
    rng = np.random.default_rng(0)
    numbers = (1e20 * rng.standard_normal((200, n_numbers)) ** 3).astype(np.float32)
    numbers[:, 1] = 5.0  # tells nothing
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    told = CatalogueFeatures(
        number_names=tuple(map(str, range(n_numbers))),
        numbers=numbers,
        label_names=tuple(f"l{k}" for k in range(200)),
        labels=(rng.random((200, 200)) < 0.02).astype(np.uint8),
    )

    phi = content_vectors(told)

    assert np.isfinite(phi).all()
    assert phi.shape[1] <= 200 + 192 + 18 + n_numbers
    assert np.linalg.norm(phi, axis=1).max() <= 0.75 * np.sqrt(2) * (1 + 1e-6)
    np.testing.assert_allclose(phi, content_vectors(replace(told, numbers=7 * numbers)), atol=1e-5)


NAME = "round-3/ridges"


def people(*numbers: int, n_items: int = 2000, seed: int = 0) -> Cohort:
    rng = np.random.default_rng(seed)
    items = [np.sort(rng.permutation(n_items)[:number]).astype(np.int32) for number in numbers]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64),
        items=np.concatenate(items),
        ratings=rng.integers(1, 6, sum(numbers)).astype(np.float32),
        n_items=n_items,
    )


def rows_of(
    cohort: Cohort, factors: np.ndarray, *, targets: np.ndarray | None = None, backend: str = "numpy"
) -> np.ndarray:
    return evidence_rows(
        cohort,
        cohort.ratings - np.float32(3.0) if targets is None else targets.astype(np.float32),
        factors.astype(np.float32),
        spread=SPREAD,
        exponent=0.25,
        bias_ridge=2.0,
        backend=backend,
    )


def largest_norm(rows: np.ndarray) -> int:
    """Square of it, in exact integers."""
    return max(sum(int(value) ** 2 for value in row) for row in rows)


WILD = {
    "nothing": lambda rng, size: np.zeros(size),
    "usual": lambda rng, size: rng.normal(0.0, 0.5, size),
    "long": lambda rng, size: rng.normal(0.0, 1e3, size),
    "as large as a board may hold": lambda rng, size: np.full(size, 1e6),
    "mixed": lambda rng, size: rng.normal(0.0, 1.0, size) * 10.0 ** rng.integers(-6, 7, size),
}


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
@pytest.mark.parametrize("factors", WILD)
def test_no_row_is_longer_than_one_after_rounding(factors: str, backend: str) -> None:
    if backend != "numpy":
        pytest.importorskip("numba")
    cohort, rng = people(0, 1, 2, 3, 40, 2000), np.random.default_rng(1)
    made = WILD[factors](rng, (2000, 4))
    for targets in (
        None,
        rng.choice([-1.0, 1.0], cohort.n_ratings) * 10.0 ** rng.uniform(-30, 38, cohort.n_ratings),
    ):
        with np.errstate(all="ignore"):
            rows = rows_of(cohort, made, targets=targets, backend=backend)
        assert rows.dtype == np.int64
        assert rows.shape == (6, RIDGES.size)
        assert largest_norm(rows) <= ROW_ONE**2
        assert not rows[:2].any()  # nothing can be left out of one rating
        if factors == "nothing" and targets is None:
            assert np.abs(rows).max() <= 1  # no factors, no difference


def test_the_bound_is_reached_and_not_passed_where_ratings_tell_much() -> None:
    cohort = people(*[200] * 20)
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((2000, 3))
    targets = (factors @ [2.0, -1.0, 1.0])[cohort.items]

    rows = rows_of(cohort, factors, targets=targets)

    norms = np.linalg.norm(rows, axis=1) / ROW_ONE
    assert norms.max() <= 1.0
    assert norms.min() > 1.0 - 1e-5
    assert (rows < 0).all()  # all candidates explain more than none


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_removing_or_replacing_a_user_moves_the_sums_by_no_more_than_is_booked(adjacency: Adjacency) -> None:
    cohort = population(n_users=30)
    task = a_residual_task(adjacency=adjacency)
    board = residual_boards(task)[-1]
    (request,) = (r for r in task.requests(board) if r.name == NAME)
    whole = exact_sums(task, cohort, board)[NAME]
    opposite = with_ratings(cohort, 6.0 - cohort.ratings)
    moved = []
    for j in range(cohort.n_users):
        others = exact_sums(task, without(cohort, j), board)[NAME]
        moved.append(np.linalg.norm(whole - others))
        if adjacency is not Adjacency.ADD_REMOVE:
            alone = exact_sums(task, opposite.rows(j, j + 1), board)[NAME]
            moved.append(np.linalg.norm(whole - (others + alone)))
            for k in range(j):
                other = exact_sums(task, cohort.rows(k, k + 1), board)[NAME]
                moved.append(np.linalg.norm(whole - (others + other)))
    assert max(moved) <= request.release.l2_sensitivity
    booked = ROW_ONE * (1.0 if adjacency is Adjacency.ADD_REMOVE else 2.0)
    assert request.release.l2_sensitivity == pytest.approx(booked)
    assert max(moved) > 0.9 * ROW_ONE


def test_the_noise_of_the_evidence_is_that_of_the_plan_and_of_what_is_weighed() -> None:
    """A factor of 1.25 in the noise, in what is booked or in what is assumed would be seen."""
    task = a_residual_task()
    z = task.settings.shared.noise_multipliers[NAME]
    request = evidence_request(task.settings.shared, 3)

    assert request.release.noise_multiplier == z
    assert request.release.l2_bound == ROW_ONE
    assert real_stddev(request) == pytest.approx(z)
    draws = np.concatenate(
        [
            request.release.noise_stddev * SeededNoise(seed).stream(NAME).normal(0, RIDGES.size)
            for seed in range(300)
        ]
    )
    found = float(np.std(draws)) * request.release.grid_step / z
    assert 0.95 < found < 1.05
    assert not 0.95 < 1.25 * found < 1.05
    assert not 0.95 < 0.8 * found < 1.05


def test_absurd_boards_and_ratings_keep_the_whole_round_within_its_bounds(cohort: Cohort) -> None:
    """What cannot be computed tells nothing, and nobody is refused for having rated an item."""
    task = a_residual_task()
    board = residual_boards(task)[-1]
    factors = np.array(board.arrays["item_factors"])
    factors[:5] = 1e6
    absurd = replace(board, arrays={**board.arrays, "item_factors": factors}, _digest=[])
    for ratings in (cohort.ratings, np.full_like(cohort.ratings, 3e38)):
        rows = task.contribute(with_ratings(cohort, ratings), absurd, task.requests(absurd))
        assert rows_within_bounds(rows, task.requests(absurd)).all()
    wrong = with_ratings(cohort, np.full_like(cohort.ratings, np.nan))
    with pytest.raises(PrivacyError), np.errstate(all="ignore"):
        task.contribute(wrong, board, task.requests(board))
