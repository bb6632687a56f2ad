"""Explanations: each rating's part, which sum to the prediction and are what a changed rating changes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.client.recommending.recommend import (
    Effect,
    Influence,
    Recommended,
    explain,
    reason_of,
    recommend,
)
from fedboard.common.algorithms.registry import rebuild_task
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from tests.common.algorithms.conftest import (
    PRESENCE,
    a_prepared_board,
    a_residual_task,
    a_task,
    population,
    presence,
    residual_boards,
)

WIDE = {"rating_low": -100.0, "rating_high": 100.0}
"""A range that no prediction reaches, so that predictions are linear as they are shown."""


def _residual(**settings: object) -> Callable[[], list[Board]]:
    return lambda: residual_boards(a_residual_task(**settings))[-2:]


BOARDS: dict[str, Callable[[], list[Board]]] = {
    "adadpals": lambda: [a_prepared_board(a_task(**WIDE))],
    "adadpals, implicit": lambda: [a_prepared_board(a_task(feedback=Feedback.IMPLICIT))],
    "adadpals, other ridge": lambda: [
        a_prepared_board(a_task(**WIDE, user_ridge=0.3, user_ridge_exponent=1.0))
    ],
    "residual": _residual(**WIDE),
    "residual, other ridge at the end": _residual(**WIDE, final_user_ridge=0.2, user_bias_ridge=7.0),
    "residual, implicit": _residual(**PRESENCE),
}


def own_row(board: Board, user: int = 5) -> Cohort:
    implicit = rebuild_task(board).settings.shared.feedback is Feedback.IMPLICIT
    return (presence(population()) if implicit else population()).rows(user, user + 1)


def number(one: Recommended | Influence, board: Board) -> int:
    return board.catalogue.item_ids.index(one.item_id)


def learnt(board: Board) -> np.ndarray:
    return np.flatnonzero(np.asarray(board.arrays["learnt"]))


@pytest.mark.parametrize("name", BOARDS)
def test_the_parts_sum_to_the_prediction(name: str) -> None:
    for board in BOARDS[name]():
        for user in (1, 5, 9):
            own = own_row(board, user)
            for item in learnt(board):
                found = explain(own, board, int(item))
                assert found.total == pytest.approx(found.prediction, abs=2e-5)
                assert len(found.influences) == own.n_ratings
                assert sorted(number(part, board) for part in found.influences) == own.items.tolist()


@pytest.mark.parametrize("name", [name for name in BOARDS if "implicit" not in name])
def test_a_part_is_what_changing_that_rating_changes(name: str) -> None:
    """Twice as far from what the board says: twice the part."""
    for board in BOARDS[name]():
        own, item = own_row(board), int(learnt(board)[3])
        before = explain(own, board, item)
        for part in before.influences[:3]:
            place = int(np.flatnonzero(own.items == number(part, board))[0])
            ratings = own.ratings.copy()
            ratings[place] += np.float32(1.5)
            after = explain(replace(own, ratings=ratings), board, item)
            (moved,) = (p for p in after.influences if p.item_id == part.item_id)
            assert after.prediction - before.prediction == pytest.approx(moved.added - part.added, abs=5e-5)


def test_the_strongest_come_first(board: Board) -> None:
    own = Cohort(
        indptr=np.array([0, 3]),
        items=np.array([0, 2, 3], dtype=np.int32),
        ratings=np.array([5.0, 1.0, 3.5], dtype=np.float32),
        n_items=6,
    )
    strengths = [abs(part.added) for part in explain(own, board, 1).influences]
    assert strengths == sorted(strengths, reverse=True)


def test_somebody_without_ratings_gets_what_the_board_says(board: Board) -> None:
    nobody = population().rows(0, 1)
    found = explain(replace(nobody, n_items=6), board, 1)
    assert (found.base, found.prediction, found.influences) == (3.0, 3.0, ())


def test_what_cannot_be_explained_is_named(board: Board) -> None:
    with pytest.raises(InputError, match="'15' is not among those that this board has learnt"):
        explain(population().rows(5, 6), board, 5)
    with pytest.raises(InputError, match="one person at a time"):
        explain(population(), board, 1)


def test_reasons_are_those_of_the_vectors_that_the_page_is_held_to() -> None:
    vectors = Path(__file__).parents[3] / "docs" / "vectors" / "reasons.json"
    for case in json.loads(vectors.read_text(encoding="utf-8"))["cases"]:
        effect, net, rated = reason_of(case["base"], case["added"], case["range"] and tuple(case["range"]))

        assert (effect, rated) == (case["effect"], case["rated"])
        assert net == pytest.approx(case["net"], abs=1e-12)


@pytest.mark.parametrize("name", BOARDS)
def test_a_reason_is_what_all_ratings_do_against_somebody_without_any(name: str) -> None:
    """By two predictions of the device itself: with the ratings, and with none."""
    board = BOARDS[name]()[-1]
    own, task = own_row(board), rebuild_task(board)
    nobody = replace(own, indptr=np.zeros(2, np.int64), items=own.items[:0], ratings=own.ratings[:0])
    found = recommend(own, board, k=8)
    items = np.array([number(one, board) for one in found], dtype=np.int32)
    rows = np.zeros(items.size, dtype=np.int32)

    mine, others = (task.predict(task.fit_local(who, board), board, rows, items) for who in (own, nobody))
    for item, one, net in zip(items, found, mine - others, strict=True):
        assert one.reason is not None
        assert one.reason.net == pytest.approx(net, abs=1e-4)
        taken_apart = explain(own, board, int(item))
        assert taken_apart.reason.net == pytest.approx(one.reason.net, abs=1e-9)
        assert taken_apart.reason[2:] == one.reason[2:]
        assert taken_apart.reason.effect == one.reason.effect in set(Effect)
        if one.reason.item_id is not None:
            (rated,) = (part for part in taken_apart.influences if part.item_id == one.reason.item_id)
            assert rated.added * one.reason.net > 0
            assert rated.added / one.reason.net == max(
                part.added / one.reason.net for part in taken_apart.influences
            )
