"""Recommendations on a device: from the board alone, the same items in blocks as at once, and its neighbours."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.boards.cache import open_board
from fedboard.client.recommending import recommend as device
from fedboard.client.recommending.catalogue_search import ItemIndex, describe
from fedboard.client.recommending.recommend import (
    Neighbour,
    Recommended,
    nearest_items,
    rating_range_of,
    recommend,
)
from fedboard.common.algorithms.registry import algorithm_of
from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.algorithm_contract import ITEMS, made, played, population

MakeBoard = Callable[..., Board]


def person(items: list[int], ratings: list[float]) -> Cohort:
    return Cohort(
        indptr=np.array([0, len(items)]),
        items=np.array(items, dtype=np.int32),
        ratings=np.array(ratings, dtype=np.float32),
        n_items=6,
    )


def numbers(found: list[Recommended] | list[Neighbour], board: Board) -> list[int]:
    """Of the items that were found, in the board's catalogue."""
    return [board.catalogue.item_ids.index(one.item_id) for one in found]


def test_the_own_vector_is_the_ridge_solution_and_predicts_the_ratings(board: Board) -> None:
    own = person([0, 3], [5.0, 2.0])

    found = recommend(own, board, k=10)

    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    rated, ridge = factors[[0, 3]], 0.1 * 2**0.25
    local = np.linalg.solve(rated.T @ rated + ridge * np.eye(2), rated.T @ np.array([2.0, -1.0]))
    expected = np.clip(3.0 + factors[[1, 2, 4]] @ local, 1.0, 5.0)
    by_item = dict(zip(numbers(found, board), [entry.score for entry in found], strict=True))
    assert [by_item[item] for item in (1, 2, 4)] == pytest.approx(expected, abs=1e-5)


def test_the_best_come_first_without_rated_and_unlearnt_items(board: Board) -> None:
    found = recommend(person([0, 3], [5.0, 2.0]), board, k=10)

    assert numbers(found, board) == [1, 4, 2]
    assert numbers(recommend(person([0, 3], [5.0, 2.0]), board, k=1), board) == [1]


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


def test_neighbours_are_ordered_by_cosine_without_unlearnt_items(board: Board) -> None:
    found = nearest_items(board, 0, k=10)

    assert numbers(found, board) == [1, 4, 3, 2]
    assert found[0].cosine == pytest.approx(0.9 / (0.82**0.5))
    assert found[-1].cosine == -1.0


def test_the_number_of_neighbours_is_kept_to(board: Board) -> None:
    assert len(nearest_items(board, 0, k=2)) == 2
    with pytest.raises(InputError, match="k must be >= 1"):
        nearest_items(board, 0, k=0)


def test_an_item_that_is_not_learnt_has_no_neighbours(board: Board) -> None:
    with pytest.raises(InputError, match="item '15' is not among those that this board has learnt"):
        nearest_items(board, 5, k=1)


@pytest.mark.parametrize(("text", "number"), [("13", 3), ("AMÉLIE (2001)", 3), ("amél", 3), ("Aliens", 5)])
def test_items_are_found_by_id_title_or_part_of_one_title(board: Board, text: str, number: int) -> None:
    assert ItemIndex(board.catalogue).find_part(text) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Alien", "is in 2 titles: Alien (1979) [14]; Aliens (1986) [15]; give more of it, or the id"),
        ("Ran (1985)", "is in 2 titles: Ran (1985) [11]; Ran (1985) [12]"),
        ("Casablanca", "'Casablanca' is not in the board's catalogue"),
        ("", "is not in the board's catalogue"),
    ],
)
def test_what_fits_no_item_or_several_is_refused(board: Board, text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        ItemIndex(board.catalogue).find_part(text)


def test_a_catalogue_without_titles_goes_by_ids(make_board: Callable[..., Board]) -> None:
    catalogue: Catalogue = make_board(titles=False).catalogue

    assert ItemIndex(catalogue).find("14") == 4
    assert describe(catalogue, 4) == "14"
    with pytest.raises(InputError, match="not in the board's catalogue"):
        ItemIndex(catalogue).find("Alien (1979)")


PLAYED = [
    ("residual", Feedback.EXPLICIT),
    ("residual", Feedback.IMPLICIT),
    ("adadpals", Feedback.EXPLICIT),
    ("topk", Feedback.IMPLICIT),
    ("bias-private", Feedback.EXPLICIT),
]


@pytest.mark.parametrize(("name", "feedback"), PLAYED)
def test_blocks_give_the_list_of_the_whole(
    name: str, feedback: Feedback, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, people = made(algorithm_of(name).variant(), feedback).task, population(feedback)
    board = played(task, people)[-1].after
    own = people.rows(3, 4)
    expected = recommend(own, board, k=7)

    for items in (1, 5, ITEMS - 1):
        monkeypatch.setattr(device, "_ITEMS_AT_ONCE", items)
        found = recommend(own, board, k=7)

        assert found == expected


def test_ties_go_to_the_lower_number_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    task, people = (
        made(algorithm_of("residual").variant(), Feedback.EXPLICIT).task,
        population(Feedback.EXPLICIT),
    )
    board = played(task, people)[-1].after
    alike = {**board.arrays, "item_factors": np.zeros_like(board.arrays["item_factors"])}
    alike |= {
        "item_biases": np.zeros_like(board.arrays["item_biases"]),
        "learnt": np.ones_like(board.arrays["learnt"]),
    }
    equal = Board(
        version=board.version, task=board.task, config=board.config, arrays=alike, catalogue=board.catalogue
    )
    own = people.rows(3, 4)
    monkeypatch.setattr(device, "_ITEMS_AT_ONCE", 4)

    found = numbers(recommend(own, equal, k=6), equal)

    assert found == sorted(set(range(ITEMS)) - set(own.items.tolist()))[:6]


MEASURED = """
import json, sys
from pathlib import Path
import numpy as np
from fedboard.client.boards.cache import open_board
from fedboard.client.recommending.recommend import ranked
from fedboard.common.cohort import Cohort
def peak():  # of this program; what getrusage says begins with what its parent held
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
before = peak()
board = open_board(Path(sys.argv[1]))
n_items = board.catalogue.n_items
items, ratings = np.array([1, 5, 9], np.int32), np.array([5, 3, 1], np.float32)
own = Cohort(indptr=np.array([0, 3]), items=items, ratings=ratings, n_items=n_items)
found, _ = ranked(own, board, k=20)
print(json.dumps({"items": len(found), "more": peak() - before}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the most memory that a program held is read from /proc")
def test_a_device_needs_little_more_than_the_board_is_large(tmp_path: Path) -> None:
    """No copy of the factors and no scores for a hundred people: of 200 000 items the board and its ids."""
    n_items, rank = 200_000, 24
    task = made(algorithm_of("residual").variant(), Feedback.EXPLICIT).task
    small = played(task, population(Feedback.EXPLICIT))[-1].after
    rng = np.random.default_rng(0)
    arrays = {
        name: np.resize(values, (n_items, *values.shape[1:])) if values.shape[:1] == (ITEMS,) else values
        for name, values in small.arrays.items()
    }
    arrays["item_factors"] = rng.standard_normal((n_items, rank), dtype=np.float32)
    config = json.loads(json.dumps(dict(small.config)))
    config["rank"] = rank
    board = Board(
        version=small.version,
        task=small.task,
        config=config,
        arrays=arrays,
        catalogue=Catalogue(item_ids=tuple(f"{number:06}" for number in range(n_items))),
    )
    board.save(path := tmp_path / "large.board")

    told = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True, timeout=120
    )

    found = json.loads(told.stdout)
    assert found["items"] == 20
    assert found["more"] < path.stat().st_size + 110 * n_items + (16 << 20)


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


def test_scores_are_the_ridge_solution_with_both_biases() -> None:
    found = recommend(person([0, 3], [5.0, 2.0]), a_board(), k=10)

    scores = np.clip(expected_scores([0, 3], [5.0, 2.0]), 1.0, 5.0)
    items = numbers(found, a_board())
    assert set(items) == {1, 2, 4, 5}
    assert [entry.score for entry in found] == pytest.approx(scores[items], abs=1e-5)
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
        assert numbers(recommend(person(items, ratings), board, k=3), board) == best[:3]


def test_a_person_without_ratings_gets_what_most_like() -> None:
    found = recommend(person([], []), a_board(), k=3)

    assert numbers(found, a_board()) == [3, 0, 2]
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
    assert numbers(found, board) == sorted([1, 2, 4, 5], key=lambda i: -scores[i])
    assert [entry.score for entry in found] == pytest.approx(np.sort(scores[[1, 2, 4, 5]])[::-1], abs=1e-5)
