"""Public features in the residual task: own models use them, and nothing that leaves a device does."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.client.recommending.recommend import explain, recommend
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.kernels.ridge import CONTENT_RIDGES
from fedboard.common.tasks.residual.task import Residual
from fedboard.common.tasks.shared.content import content_of, content_vectors
from fedboard.common.wire.item_features import CatalogueFeatures
from tests.common.tasks.conftest import (
    N_ITEMS,
    a_residual_task,
    residual_boards,
)


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
    scores = {one.item: one.score for one in recommend(own, board, k=N_ITEMS)}
    assert scores[7] == pytest.approx(with_content.prediction, abs=1e-5)
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
