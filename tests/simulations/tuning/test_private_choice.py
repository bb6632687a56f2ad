"""The release that compares trials: what one user can do to it whatever the boards are, and what follows."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.data import Ratings
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.splits import RatingSplit
from fedboard.simulations.problem import Problem, load_data, problem_of
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.tuning.private_choice import (
    BEYOND,
    ROW_ONE,
    ChoiceTask,
    Tried,
    choice_request,
    choice_rows,
    chosen,
    squared_errors,
)

RANGE = (1.0, 5.0)
CONFIG: SimulationConfig = parse_config(
    {
        "algorithm": "adadpals",
        "data": {"synthetic": {"n_users": 60, "n_items": 30, "mean_ratings_per_user": 12.0}},
        "settings": {"rank": 2, "rounds": 1},
        "run": {"kernels": "numpy"},
    }
)


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    """Made up. To be read only."""
    return load_data(CONFIG.data)


@pytest.fixture(scope="module")
def problem(ratings: Ratings) -> Problem:
    """Its split. To be read only."""
    return problem_of(ratings, CONFIG)


def rating_split(problem: Problem) -> RatingSplit:
    assert isinstance(problem.split, RatingSplit)
    return problem.split


def tried(problem: Problem, *, scale: float, seed: int) -> Tried:
    """A board whose factors are random, of any size."""
    config = msgspec.structs.replace(CONFIG, seed=seed)
    task: RatingTask = build_task(config, rating_range=RANGE, backend="numpy").task
    board: Board = task.first_board(problem.catalogue)
    rng = np.random.default_rng(seed)
    arrays = {name: scale * rng.normal(size=a.shape).astype(a.dtype) for name, a in board.arrays.items()}
    arrays["mean"] = np.array([3.0])
    return Tried(task=task, board=replace(board, version=len(task.plan()), arrays=arrays, _digest=[]))


def choice(problem: Problem, *scales: float) -> ChoiceTask:
    split = rating_split(problem)
    assert split.rule is not None
    return ChoiceTask(
        tried=tuple(tried(problem, scale=scale, seed=seed) for seed, scale in enumerate(scales)),
        rule=split.rule,
        item_keys=id_keys(problem.catalogue.item_ids, Kind.ITEM),
        rating_range=problem.rating_range,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=5.0,
    )


def rows_of(task: ChoiceTask, cohort: Cohort) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    board = Board(version=0, task="choice", config={}, arrays={}, catalogue=None)  # type: ignore[arg-type]
    (rows,) = task.contribute(cohort, board, task.plan()[0]).totals.values()
    return rows


WILD = (3.0, -1e300, 1e300, np.inf, -np.inf, np.nan, 1.0, 5.0, 4.9999)


@pytest.mark.parametrize("n_ratings", [0, 1, 2, 40])
@pytest.mark.parametrize("n_boards", [2, 3, 4, 16])
def test_a_row_has_norm_at_most_one_whatever_the_boards_predict(n_ratings: int, n_boards: int) -> None:
    rng, largest = np.random.default_rng(n_ratings), 0
    for _ in range(60):
        actual = rng.choice(np.array([1.0, 2.5, 5.0], dtype=np.float32), size=n_ratings)
        predicted = rng.choice(WILD, size=(n_boards, n_ratings))
        if n_ratings:
            predicted[0] = 6.0 - actual  # as bad as can be, so that others are far better
        losses = np.array(
            [[squared_errors(one, actual, RANGE).sum() / max(n_ratings, 1) for one in predicted]]
        )
        assert np.isfinite(losses).all()
        assert (losses >= 0).all()
        assert (losses <= 16).all()

        (row,) = choice_rows(losses, np.array([n_ratings])).tolist()

        square = sum(number * number for number in row)  # Python's integers
        assert square <= ROW_ONE**2
        largest = max(largest, square)
    # The bound is no larger than it has to be: booked with half of it, a user could do more than is paid for.
    assert largest == 0 if n_ratings == 0 else largest > (0.99 * ROW_ONE) ** 2


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_noise_is_for_what_one_user_can_do_to_the_sum(adjacency: Adjacency) -> None:
    rng = np.random.default_rng(3)
    losses = 16 * rng.random((400, 4))
    losses[0], losses[1] = (0, 16, 16, 16), (16, 0, 0, 0)  # opposite opinions, each as strong as can be
    rows = choice_rows(losses, np.array([40, 40, *rng.choice([0, 1, 2, 40, 900], size=398)]))
    release = choice_request(4, adjacency, 5.0).release

    assert release.keeps_bound(rows).all()
    assert not replace(release, l2_bound=ROW_ONE // 2).keeps_bound(rows).all()
    moved = rows if adjacency is Adjacency.ADD_REMOVE else rows[:, None, :] - rows[None, :, :]
    largest = math.sqrt(float((moved.astype(object) ** 2).sum(axis=-1).max()))
    assert 0.99 * release.l2_sensitivity < largest <= release.l2_sensitivity
    assert release.noise_stddev == 5.0 * release.l2_sensitivity


def test_users_compare_on_just_the_ratings_that_training_has_not_seen(problem: Problem) -> None:
    task, split = choice(problem, 0.1, 0.1), rating_split(problem)
    both = split.train_and_validation

    learnt = both.where(task._learnt(both))
    held_out = task._held_out(both)

    assert split.validation.n_ratings > 20
    np.testing.assert_array_equal(learnt.indptr, problem.train.indptr)
    np.testing.assert_array_equal(learnt.items, problem.train.items)
    pairs = set(zip(held_out.user_of_entry().tolist(), held_out.items.tolist(), strict=True))
    assert pairs == set(zip(split.validation.users.tolist(), split.validation.items.tolist(), strict=True))


def test_losses_are_those_of_models_that_have_not_seen_what_they_are_judged_on(problem: Problem) -> None:
    task, split = choice(problem, 0.1, 0.5, 3.0), rating_split(problem)
    held_out = split.validation

    losses = task.losses(split.train_and_validation)

    for place, one in enumerate(task.tried):
        local = one.task.fit_local(problem.train, one.board)
        predicted = np.clip(one.task.predict(local, one.board, held_out.users, held_out.items), *RANGE)
        errors = predicted - held_out.values  # a quarter of the range is 1
        for user in range(problem.train.n_users):
            own = errors[held_out.users == user]
            expected = float(np.mean(own**2)) if own.size else 0.0
            assert losses[user, place] == pytest.approx(expected, abs=1e-9)
    assert (losses > 0).sum() > 60


@pytest.mark.parametrize("scales", [(0.1, 0.3, 1.0), (0.1, 1e6, 1e12), (1e12, 1e-12, 0.0)])
def test_a_user_who_is_taken_out_of_the_data_changes_nobody_elses_row(
    ratings: Ratings, problem: Problem, scales: tuple[float, ...]
) -> None:
    gone = 7
    stay = ratings.users != gone
    fewer = replace(
        ratings,
        users=ratings.users[stay] - (ratings.users[stay] > gone).astype(np.int32),
        items=ratings.items[stay],
        values=ratings.values[stay],
        user_ids=np.delete(ratings.user_ids, gone),
    )
    without = problem_of(fewer, CONFIG)
    task = choice(problem, *scales)

    before = rows_of(task, rating_split(problem).train_and_validation)
    after = rows_of(task, rating_split(without).train_and_validation)

    assert np.abs(before).sum() > 0
    np.testing.assert_array_equal(np.delete(before, gone, axis=0), after)
    assert (before.sum(axis=0) - after.sum(axis=0)).tolist() == before[gone].tolist()
    assert choice_request(len(scales), Adjacency.ADD_REMOVE, 1.0).release.keeps_bound(before).all()


def test_one_who_kept_nothing_back_says_nothing(problem: Problem) -> None:
    task, train = choice(problem, 0.1, 1.0), problem.train

    assert not rows_of(task, train).any()  # the training part alone: no validation ratings


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((-1.0, -3.0, -2.0), 0),  # better, but within the noise
        ((-2.0 * BEYOND, -1.0, 0.0), 0),  # just at the line
        ((-4.1, -5.0, -4.1), 2),
        ((-5.0, -5.0, 1.0), 1),  # a tie: the earlier one
        ((3.0, 9.0, 1.0), 0),
    ],
)
def test_the_shipped_settings_stay_unless_another_is_better_beyond_the_noise(
    losses: tuple[float, ...], expected: int
) -> None:
    assert chosen(np.array(losses), 2.0) == expected
