"""Tasks on examples as rounds, devices and servers see them: cohorts in, and each user's row hers alone."""

from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from typing import ClassVar

import numpy as np
import pytest

from fedboard.client.participation.promises import has_sound_arrays
from fedboard.common.algorithms import registry
from fedboard.common.algorithms.registry import (
    EXAMPLE_ALGORITHMS,
    EXAMPLE_ENTRY_POINTS,
    algorithm_names,
    example_algorithm_of,
    example_algorithms,
    learns_from_examples,
    rebuild_any,
    rebuild_task,
)
from fedboard.common.algorithms.representation.algorithm import Representation
from fedboard.common.algorithms.supervised.examples import CohortTask, cohort_of, examples_of
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.server.calibrating import ExampleTraining, calibrated_example_task
from fedboard.server.run_spec import Promise
from tests.common.algorithms.representation.conftest import USERS, catalogue, orthonormal, population


class Theirs(Representation):
    NAME: ClassVar[str] = "theirs"


NAMES = EXAMPLE_ALGORITHMS
THEIRS = replace(
    example_algorithm_of("representation"), name="theirs", task=lambda settings: Theirs(settings)
)
"""Of somebody else's package."""
PROMISE = Promise(epsilon=5.0, delta=1e-6, noise="seeded")


def task_of(name: str, **settings: object) -> CohortTask:
    return calibrated_example_task(
        ExampleTraining(algorithm=example_algorithm_of(name), promise=PROMISE, settings=settings)
    )


def boards_of(name: str) -> list[Board]:
    """The first boards of a run, with a representation that somebody might have learnt."""
    first = task_of(name).first_board(catalogue())
    if "representation" not in first.arrays:
        return [first]
    return [first, first.successor(representation=orthonormal())]


def given(name: str, cohort: Cohort, board: Board) -> dict[str, np.ndarray]:
    task = rebuild_any(board)
    return dict(task.contribute(cohort, board, task.requests(board)).totals)


@pytest.mark.parametrize("name", NAMES)
def test_a_user_gives_to_the_last_bit_what_she_gives_alone(name: str) -> None:
    """Computed in a block, rows may differ by a unit of the grid with the longest row beside them."""
    whole = cohort_of(population())

    for board in boards_of(name):
        together = given(name, whole, board)
        for user in range(USERS):
            alone = given(name, whole.rows(user, user + 1), board)
            for release, rows in together.items():
                np.testing.assert_array_equal(rows[user], alone[release][0])


def test_a_block_computed_at_once_gives_the_same_but_for_what_a_float_rounds() -> None:
    """So each is computed by herself: a unit of the grid is not hidden by any noise that is counted for her."""
    generator = np.random.default_rng(0)
    few = population(users=40)
    wide = replace(few, features=generator.standard_normal((few.labels.size, 64)).astype(np.float32))
    names = Catalogue(item_ids=tuple(f"f{number}" for number in range(64)))
    task = task_of("representation")
    first = task.first_board(names)
    board = first.successor(representation=orthonormal(dimension=64))
    requests = task.requests(board)

    at_once = task.task.contribute(wide, board, requests).totals
    each = task.contribute(cohort_of(wide), board, requests).totals

    distance = max(int(np.abs(at_once[name] - each[name]).max()) for name in each)
    assert distance <= 2


@pytest.mark.parametrize("name", NAMES)
def test_the_task_of_a_board_is_rebuilt_from_it_and_its_arrays_are_held_to_rules(name: str) -> None:
    for board in boards_of(name):
        task = rebuild_any(board)

        assert dict(task.config) == dict(board.config)
        assert has_sound_arrays(board, task)
        for array in board.arrays:
            cut = replace(board, arrays={**board.arrays, array: board.arrays[array][:-1]})
            wild = replace(board, arrays={**board.arrays, array: board.arrays[array] + 1e30})
            assert not has_sound_arrays(cut, task)
            assert not has_sound_arrays(wild, task)


def test_ratings_are_no_examples_and_an_empty_row_is() -> None:
    board = boards_of("representation")[1]
    ratings = Cohort(
        indptr=np.array([0, 1]),
        items=np.array([0], dtype=np.int32),
        ratings=np.ones(1, dtype=np.float32),
        n_items=board.catalogue.n_items,
    )
    nobody = ratings.where(np.zeros(1, dtype=bool))

    with pytest.raises(InputError, match="ratings without features"):
        examples_of(ratings)
    assert all(not rows.any() for rows in given("representation", nobody, board).values())
    with pytest.raises(InputError, match="the catalogue's features"):
        replace(ratings, features=np.ones((1, 3), dtype=np.float32))


def test_a_board_that_asks_for_more_than_a_device_would_send_is_refused() -> None:
    task = task_of("representation", rank=30)
    wide = Catalogue(item_ids=tuple(f"f{number}" for number in range(300)))
    board = task.first_board(wide).successor(representation=np.zeros((300, 30)))

    with pytest.raises(InputError, match="would ask each user for 21,003,750 numbers"):
        task.requests(board)


def test_a_reader_of_items_is_told_that_there_are_none() -> None:
    with pytest.raises(InputError, match="learnt from examples has features and no items"):
        rebuild_task(boards_of("representation")[1])


def test_an_installed_package_brings_one_and_takes_nobodys_name(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = "tests.common.algorithms.supervised.test_from_cohort:THEIRS"
    entries = tuple(
        EntryPoint(name=name, value=theirs, group=EXAMPLE_ENTRY_POINTS)
        for name in ("theirs", "renamed", "residual", "representation")
    )
    monkeypatch.setattr(
        registry, "entry_points", lambda *, group: entries if group == EXAMPLE_ENTRY_POINTS else EntryPoints()
    )

    assert example_algorithm_of("theirs") is THEIRS
    assert [algorithm.name for algorithm in example_algorithms()] == [*NAMES, "theirs"]
    first = task_of("theirs").first_board(catalogue())
    assert rebuild_any(first).name == "theirs"
    with pytest.raises(
        InputError,
        match="'renamed' must be an ExampleAlgorithm record of that name, got the record of 'theirs'",
    ):
        example_algorithm_of("renamed")
    assert not learns_from_examples("residual")
    assert example_algorithm_of("representation") is not THEIRS


def test_names_are_looked_up_and_none_is_of_both_kinds() -> None:
    assert [algorithm.name for algorithm in example_algorithms()] == list(NAMES)
    assert not set(NAMES) & set(algorithm_names())
    assert not learns_from_examples("residual")
    with pytest.raises(InputError, match="did you mean 'representation'"):
        example_algorithm_of("reprsentation")
    with pytest.raises(InputError, match="unknown key 'cohorts'"):
        task_of("representation", cohorts=3)
