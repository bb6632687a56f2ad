"""The directions that are measured where nothing was learnt: which coordinates, when, and how long."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.residual.algorithm import Residual
from fedboard.common.tasks.residual.config import stage_of
from fedboard.common.tasks.residual.start import measured_columns, sketch_factors
from tests.common.tasks.conftest import N_ITEMS, a_residual_task, residual_boards


def board_at(task: Residual, t: int, *, empty: tuple[int, ...] = (), explores: float | None = None) -> Board:
    """Before alternation t, with no factors in some coordinates."""
    (board,) = (b for b in residual_boards(task) if stage_of(b.version, task.settings).alternation == t)
    factors = np.array(board.arrays["item_factors"])
    factors[:, list(empty)] = 0.0
    told = {} if explores is None else {"explores": np.array([explores])}
    return replace(board, arrays={**board.arrays, "item_factors": factors, **told}, _digest=[])


def test_the_first_alternation_measures_along_random_directions_in_all_coordinates() -> None:
    task = a_residual_task(rank=4, public_seed=11)

    sketch = sketch_factors(board_at(task, 1), task.settings, 1)

    assert sketch is not None
    assert sketch.columns.tolist() == [True] * 4
    assert sketch.length == 1.0
    drawn = np.random.default_rng(11).standard_normal((N_ITEMS, 4), dtype=np.float32) * np.float32(0.15)
    np.testing.assert_array_equal(sketch.factors, drawn)


@pytest.mark.parametrize("explores", [0.0, 1.0])
@pytest.mark.parametrize(("t", "empty"), [(1, (0, 1, 2)), (3, (1,)), (3, ()), (5, (1,))])
def test_coordinates_that_are_said_to_be_measured_are_those_that_users_fill(
    cohort: Cohort, t: int, empty: tuple[int, ...], explores: float
) -> None:
    """The server takes the others' sums for noise: it must know which they are, without looking at anybody."""
    task = a_residual_task(rounds=6)
    board = board_at(task, t, empty=empty, explores=explores)

    vectors = task.contribute(cohort, board, task.requests(board)).vectors

    assert vectors is not None
    assert measured_columns(board, task.settings, t).tolist() == vectors.any(axis=0).tolist()


def test_vectors_are_as_long_as_their_share_of_the_coordinates(cohort: Cohort) -> None:
    task = a_residual_task(rounds=6, bias_scale=0.1, bias_clip_norm=0.2, vector_bound=1.3, clip_norm=2.6)
    board = board_at(task, 3, empty=(0, 2))
    faint = np.array(board.arrays["item_factors"]) * np.float32(1e-3)
    faint = replace(board, arrays={**board.arrays, "item_factors": faint}, _digest=[])

    vectors = task.contribute(cohort, faint, task.requests(faint)).vectors

    assert vectors is not None
    lengths = np.linalg.norm(vectors[cohort.counts > 1][:, [1, 3]] * 1.3 / 4096, axis=1)
    assert lengths.max() == pytest.approx(np.sqrt(2 / 3), rel=0.01)
