"""A device reads a board of the residual task: it needs the board alone, and ranks as it predicts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.recommending.recommend import nearest_items, rating_range_of, recommend
from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import rebuild_task
from fedboard.common.tasks.residual.algorithm import Residual
from fedboard.common.tasks.residual.config import Curvature, ResidualConfig, Start
from fedboard.common.tasks.shared.ratings_config import Feedback, from_written
from tests.client.recommending.test_recommend import person

FACTORS = [[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0], [0.0, 1.0], [0.1, 0.9], [0.5, -0.5]]
BIASES = [0.3, -0.2, 0.1, 0.6, -0.7, 0.0]


def a_board(**settings: object) -> Board:
    task = Residual(
        from_written({"rank": 2, "user_ridge": 0.2, "user_bias_ridge": 0.5, **settings}, ResidualConfig)
    )
    return Board(
        version=4,
        task=task.name,
        config=task.config,
        arrays={
            "item_factors": np.array(FACTORS, dtype=np.float32),
            "item_biases": np.array(BIASES, dtype=np.float32),
            "learnt": np.ones(6, dtype=np.uint8),
            "mean": np.array([3.0]),
        },
        catalogue=Catalogue(item_ids=("10", "11", "12", "13", "14", "15")),
    )


def expected_scores(items: list[int], ratings: list[float]) -> np.ndarray:
    """Ridge regression by the normal equations, for all items."""
    columns = np.column_stack([np.ones(6), np.array(FACTORS)])
    left = np.array(ratings) - 3.0 - np.array(BIASES)[items]
    ridge = np.diag([0.5, 0.2, 0.2]) * max(len(items), 1) ** 0.25
    own = np.linalg.solve(columns[items].T @ columns[items] + ridge, columns[items].T @ left)
    return 3.0 + np.array(BIASES) + columns @ own


def test_the_task_is_rebuilt_from_the_board() -> None:
    board = a_board(curvature=Curvature.ONCE, start=Start.SPECTRAL, clip_quantile=0.6)

    task = rebuild_task(board)

    assert isinstance(task, Residual)
    assert task.settings == ResidualConfig(
        rank=2,
        user_ridge=0.2,
        user_bias_ridge=0.5,
        curvature=Curvature.ONCE,
        start=Start.SPECTRAL,
        clip_quantile=0.6,
    )
    assert dict(task.config) == dict(board.config)


def test_a_saved_board_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.board"
    a_board().save(path)

    assert recommend(person([0, 3], [5.0, 2.0]), Board.load(path), k=4) == recommend(
        person([0, 3], [5.0, 2.0]), a_board(), k=4
    )


def test_scores_are_the_ridge_solution_with_both_biases() -> None:
    found = recommend(person([0, 3], [5.0, 2.0]), a_board(), k=10)

    scores = np.clip(expected_scores([0, 3], [5.0, 2.0]), 1.0, 5.0)
    assert {entry.item for entry in found} == {1, 2, 4, 5}
    for entry in found:
        assert entry.score == pytest.approx(scores[entry.item], abs=1e-5)
    assert [entry.score for entry in found] == sorted((entry.score for entry in found), reverse=True)
    assert rating_range_of(a_board()) == (1.0, 5.0)


def test_the_order_is_that_of_the_predictions_for_anybody() -> None:
    board, rng = a_board(rating_low=-50.0, rating_high=50.0), np.random.default_rng(0)
    for _ in range(50):
        items = np.sort(rng.choice(6, rng.integers(0, 4), replace=False)).tolist()
        ratings = rng.integers(1, 6, len(items)).astype(float).tolist()
        scores = expected_scores(items, ratings)
        others = [i for i in range(6) if i not in items]
        best = sorted(others, key=lambda i: -scores[i])
        assert [entry.item for entry in recommend(person(items, ratings), board, k=3)] == best[:3]


def test_a_person_without_ratings_gets_what_most_like() -> None:
    found = recommend(person([], []), a_board(), k=3)

    assert [entry.item for entry in found] == [3, 0, 2]
    assert [entry.score for entry in found] == pytest.approx([3.6, 3.3, 3.1])


def test_presence_is_scored_without_biases_or_a_range() -> None:
    board = a_board(feedback=Feedback.IMPLICIT, unobserved_weight=0.1)
    nothing = {"item_biases": np.zeros(6, dtype=np.float32), "mean": np.array([0.0])}
    board = replace(board, arrays={**board.arrays, **nothing})

    found = recommend(person([0, 3], [1.0, 1.0]), board, k=6)

    factors = np.array(FACTORS)
    left = factors[[0, 3]].T @ factors[[0, 3]] + 0.1 * factors.T @ factors + 0.2 * 2**0.25 * np.eye(2)
    scores = factors @ np.linalg.solve(left, factors[[0, 3]].sum(axis=0))
    assert rating_range_of(board) is None
    assert [entry.item for entry in found] == sorted([1, 2, 4, 5], key=lambda i: -scores[i])
    assert [entry.score for entry in found] == pytest.approx(np.sort(scores[[1, 2, 4, 5]])[::-1], abs=1e-5)


def test_items_that_are_not_learnt_are_not_recommended() -> None:
    board = a_board()
    arrays = {**board.arrays, "learnt": np.array([1, 1, 1, 0, 1, 1], dtype=np.uint8)}

    found = recommend(person([], []), replace(board, arrays=arrays), k=6)

    assert 3 not in {entry.item for entry in found}


def test_neighbours_are_those_by_taste_whatever_their_bias() -> None:
    assert [near.item for near in nearest_items(a_board(), 0, k=2)] == [1, 5]


def test_a_configuration_that_is_not_known_is_refused() -> None:
    board = a_board()
    for wrong in ({"rank": "two"}, {"curvature": "perhaps"}, {"start": "warm"}):
        with pytest.raises(InputError, match="not one that this version of fedboard knows"):
            rebuild_task(replace(board, config={**board.config, **wrong}))


def test_a_configuration_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match="rank"):
        rebuild_task(replace(a_board(), config={**a_board().config, "rank": 0}))
