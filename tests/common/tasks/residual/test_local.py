"""The device's own model in the residual task: what it minimises, predicts and ranks by."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.tasks.residual.releases import user_ridge
from tests.common.tasks.conftest import (
    PRESENCE,
    SPREAD,
    a_residual_task,
    population,
    presence,
    residual_boards,
)


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


def test_predictions_are_the_sum_of_their_parts_on_the_rating_range(cohort: Cohort) -> None:
    task = a_residual_task()
    board = residual_boards(task)[-1]
    local = task.fit_local(cohort, board)
    users, items = np.array([1, 2, 7], dtype=np.int32), np.array([4, 0, 11], dtype=np.int32)

    predicted = task.predict(local, board, users, items)

    for j, i, value in zip(users, items, predicted, strict=True):
        factor, bias = board.arrays["item_factors"][i].astype(np.float64), board.arrays["item_biases"][i]
        expected = 3.4 + bias + local[j, 0] + factor @ local[j, 1:]
        assert value == pytest.approx(min(max(expected, 1.0), 5.0), abs=1e-6)
    assert task.predict(10 * local, board, users, items).max() <= 5.0
