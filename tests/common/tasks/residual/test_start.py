"""The directions that are measured where nothing was learnt: which coordinates, when, and how long."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.residual.config import Curvature, Start, stage_of
from fedboard.common.tasks.residual.start import measured_columns, sketch_factors
from fedboard.common.tasks.residual.task import Residual
from tests.common.tasks.conftest import N_ITEMS, PRESENCE, a_residual_task, residual_boards


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


def test_a_spectral_start_gives_the_directions_of_the_first() -> None:
    task = a_residual_task(start=Start.SPECTRAL)
    board = board_at(task, 1)

    sketch = sketch_factors(board, task.settings, 1)

    assert sketch is not None
    np.testing.assert_array_equal(sketch.factors, board.arrays["sketch_factors"])


@pytest.mark.parametrize("empty", [(1,), (0, 2), (0, 1, 2)])
def test_later_what_is_empty_is_measured_along_new_directions(empty: tuple[int, ...]) -> None:
    task = a_residual_task(rounds=6)
    settings = task.settings
    boards = {t: board_at(task, t, empty=empty) for t in range(2, 7)}

    found = {t: sketch_factors(board, settings, t) for t, board in boards.items()}

    assert [t for t, sketch in found.items() if sketch is not None] == [2, 3, 4]  # two thirds of six
    for t in (2, 3, 4):
        sketch = found[t]
        assert sketch is not None
        assert tuple(np.flatnonzero(sketch.columns)) == empty
        assert sketch.factors.shape == (N_ITEMS, len(empty))
        assert sketch.length == pytest.approx(np.sqrt(len(empty) / 3))
        drawn = np.random.default_rng(t).standard_normal(sketch.factors.shape, dtype=np.float32)
        np.testing.assert_allclose(sketch.factors, drawn * 0.3 / np.sqrt(len(empty)), rtol=1e-6)


def test_nothing_is_measured_anew_where_all_is_learnt_or_noise_would_drown_it() -> None:
    task = a_residual_task(rounds=6)

    assert sketch_factors(board_at(task, 3), task.settings, 3) is None
    for t, empty in ((1, ()), (3, (0, 1, 2))):
        assert sketch_factors(board_at(task, t, empty=empty, explores=0.0), task.settings, t) is None
        assert sketch_factors(board_at(task, t, empty=empty, explores=1.0), task.settings, t) is not None


def test_presence_measures_along_random_directions_once() -> None:
    task = a_residual_task(**PRESENCE, rounds=6)

    assert sketch_factors(board_at(task, 1, explores=0.0), task.settings, 1) is not None  # not read there
    assert sketch_factors(board_at(task, 2, empty=(0, 1, 2)), task.settings, 2) is None
    assert measured_columns(board_at(task, 2, empty=(0, 1, 2)), task.settings, 2).tolist() == [True] * 3


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


def test_kept_matrices_have_all_coordinates() -> None:
    task = a_residual_task(rounds=6, curvature=Curvature.ONCE)

    found = measured_columns(board_at(task, 5, empty=(1,)), task.settings, 5)

    assert found.tolist() == [True] * 4


def test_vectors_are_as_long_as_their_share_of_the_coordinates(cohort: Cohort) -> None:
    task = a_residual_task(rounds=6, bias_scale=0.1, bias_clip_norm=0.2, vector_bound=1.3, clip_norm=2.6)
    board = board_at(task, 3, empty=(0, 2))
    faint = np.array(board.arrays["item_factors"]) * np.float32(1e-3)
    faint = replace(board, arrays={**board.arrays, "item_factors": faint}, _digest=[])

    vectors = task.contribute(cohort, faint, task.requests(faint)).vectors

    assert vectors is not None
    lengths = np.linalg.norm(vectors[cohort.counts > 1][:, [1, 3]] * 1.3 / 4096, axis=1)
    assert lengths.max() == pytest.approx(np.sqrt(2 / 3), rel=0.01)
