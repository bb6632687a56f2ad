from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.boards.open_board import open_board
from fedboard.client.recommending.recommend import rating_range_of, recommend
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.ratings_config import Feedback

MakeBoard = Callable[..., Board]


def person(items: list[int], ratings: list[float]) -> Cohort:
    return Cohort(
        indptr=np.array([0, len(items)]),
        items=np.array(items, dtype=np.int32),
        ratings=np.array(ratings, dtype=np.float32),
        n_items=6,
    )


def test_the_own_vector_is_the_ridge_solution_and_predicts_the_ratings(board: Board) -> None:
    own = person([0, 3], [5.0, 2.0])

    found = recommend(own, board, k=10)

    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    rated, ridge = factors[[0, 3]], 0.1 * 2**0.25
    local = np.linalg.solve(rated.T @ rated + ridge * np.eye(2), rated.T @ np.array([2.0, -1.0]))
    expected = np.clip(3.0 + factors[[1, 2, 4]] @ local, 1.0, 5.0)
    by_item = {entry.item: entry.score for entry in found}
    assert [by_item[item] for item in (1, 2, 4)] == pytest.approx(expected, abs=1e-5)


def test_the_best_come_first_without_rated_and_unlearnt_items(board: Board) -> None:
    found = recommend(person([0, 3], [5.0, 2.0]), board, k=10)

    assert [entry.item for entry in found] == [1, 4, 2]
    assert [entry.item for entry in recommend(person([0, 3], [5.0, 2.0]), board, k=1)] == [1]


def test_implicit_feedback_is_scored_without_a_range(make_board: MakeBoard) -> None:
    board = make_board(Feedback.IMPLICIT)

    found = recommend(person([0], [1.0]), board, k=1)

    assert rating_range_of(board) is None
    assert [entry.item for entry in found] == [1]
    assert 0.0 < found[0].score < 1.0


def test_recommendations_are_for_one_person(board: Board) -> None:
    nobody = Cohort(
        indptr=np.zeros(1, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        ratings=np.zeros(0, dtype=np.float32),
        n_items=6,
    )

    with pytest.raises(InputError, match="one person at a time"):
        recommend(nobody, board, k=1)


def test_the_newest_board_of_a_run_is_opened(make_board: MakeBoard, tmp_path: Path) -> None:
    (tmp_path / "boards").mkdir()
    for version in (2, 10):
        make_board(version=version).save(tmp_path / "boards" / f"board-{version:04d}.board")

    assert open_board(tmp_path).version == 10
    assert open_board(tmp_path / "boards").version == 10
    assert open_board(tmp_path / "boards" / "board-0002.board").version == 2


def test_places_without_a_usable_board_are_refused(make_board: MakeBoard, tmp_path: Path) -> None:
    make_board(version=1).save(tmp_path / "early.board")
    (tmp_path / "cut.board").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{}")
    (tmp_path / "empty").mkdir()

    with pytest.raises(InputError, match="no such file or directory"):
        open_board(tmp_path / "missing")
    with pytest.raises(InputError, match="no board in this directory"):
        open_board(tmp_path / "empty")
    with pytest.raises(InputError, match="not a complete fedboard board"):
        open_board(tmp_path / "cut.board")
    with pytest.raises(InputError, match="version 1 of this board has learnt nothing"):
        open_board(tmp_path / "early.board")


def test_a_board_of_an_unknown_task_is_refused(board: Board) -> None:
    with pytest.raises(InputError, match="made by the task 'other'"):
        recommend(person([0], [5.0]), replace(board, task="other"), k=1)
    with pytest.raises(InputError, match="not one that this version of fedboard knows"):
        recommend(person([0], [5.0]), replace(board, config={"rank": "two"}), k=1)
