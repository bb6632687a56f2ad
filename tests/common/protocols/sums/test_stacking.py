"""Rows of many clients below one another are the rows of one client that hosts them all."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.contribution import Contribution
from fedboard.common.protocols.sums.exact import kept_rows
from fedboard.common.protocols.sums.row_bounds import joined, only_rows
from tests.common.tasks.conftest import (
    N_USERS,
    a_prepared_board,
    a_residual_task,
    a_task,
    population,
    residual_boards,
)
from tests.thorough import examples

TASK, RESIDUAL = a_task(), a_residual_task()
ASKED = [
    (TASK, TASK.first_board(a_prepared_board(TASK).catalogue)),
    (TASK, a_prepared_board(TASK)),
    *((RESIDUAL, board) for board in residual_boards(RESIDUAL)[:-1]),
]


def rows(asked: int, start: int = 0, stop: int = N_USERS) -> Contribution:
    task, board = ASKED[asked]
    return task.contribute(population().rows(start, stop), board, task.requests(board))


def assert_same(ours: Contribution, theirs: Contribution) -> None:
    assert ours.n_items == theirs.n_items
    for name in ("indptr", "items", "weights", "vectors", "responses"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert set(ours.totals) == set(theirs.totals)
    for name, values in ours.totals.items():
        np.testing.assert_array_equal(values, theirs.totals[name])


@pytest.mark.slow
@pytest.mark.parametrize("asked", range(len(ASKED)))
@settings(max_examples=examples(10, thorough=25), deadline=None)
@given(cuts=st.sets(st.integers(0, N_USERS), max_size=6))
def test_joined_parts_are_the_whole(asked: int, cuts: set[int]) -> None:
    """Ten ways to cut are enough: parts in another order are wrong in all but the ways that cut off nothing."""
    bounds = sorted({0, N_USERS, *cuts})
    parts = [rows(asked, start, stop) for start, stop in itertools.pairwise(bounds)]

    assert_same(joined(parts), rows(asked))


def test_parts_without_rows_add_nothing() -> None:
    assert_same(joined([rows(1, 3, 3), rows(1), rows(1, 9, 9)]), rows(1))


@pytest.mark.slow
@pytest.mark.parametrize("asked", range(len(ASKED)))
@settings(max_examples=examples(10, thorough=25), deadline=None)
@given(keep=st.lists(st.booleans(), min_size=N_USERS, max_size=N_USERS).map(np.array))
def test_only_some_rows_are_what_emptied_rows_leave(asked: int, keep: np.ndarray) -> None:
    some, emptied = only_rows(rows(asked), keep), kept_rows(rows(asked), keep)

    assert some.n_users == keep.sum()
    np.testing.assert_array_equal(some.items, emptied.items)
    np.testing.assert_array_equal(np.diff(some.indptr), np.diff(emptied.indptr)[keep])
    if some.weights is not None and emptied.weights is not None:
        np.testing.assert_array_equal(some.weights, emptied.weights)
    if some.vectors is not None and emptied.vectors is not None:
        np.testing.assert_array_equal(some.vectors, emptied.vectors[keep])
    for name, values in some.totals.items():
        np.testing.assert_array_equal(values, emptied.totals[name][keep])
