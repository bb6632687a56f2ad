"""What users tell of ridges: bounded whatever they rated, and the ridge that follows."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.trusted.protocol import rows_within_bounds
from fedboard.common.tasks.residual.algorithm import Residual
from fedboard.common.tasks.residual.releases import (
    RIDGES,
    ROW_ONE,
    evidence_request,
    evidence_rows,
)
from fedboard.common.tasks.shared.preparation import real_stddev
from fedboard.common.tasks.shared.ratings_config import Feedback
from tests.common.tasks.conftest import PRESENCE, SPREAD, a_residual_task, population, residual_boards
from tests.common.tasks.residual.test_bounds import exact_sums, with_ratings, without

NAME = "round-3/ridges"


def people(*numbers: int, n_items: int = 2000, seed: int = 0) -> Cohort:
    rng = np.random.default_rng(seed)
    items = [np.sort(rng.permutation(n_items)[:number]).astype(np.int32) for number in numbers]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64),
        items=np.concatenate(items),
        ratings=rng.integers(1, 6, sum(numbers)).astype(np.float32),
        n_items=n_items,
    )


def rows_of(
    cohort: Cohort, factors: np.ndarray, *, targets: np.ndarray | None = None, backend: str = "numpy"
) -> np.ndarray:
    return evidence_rows(
        cohort,
        cohort.ratings - np.float32(3.0) if targets is None else targets.astype(np.float32),
        factors.astype(np.float32),
        spread=SPREAD,
        exponent=0.25,
        bias_ridge=2.0,
        backend=backend,
    )


def largest_norm(rows: np.ndarray) -> int:
    """Square of it, in exact integers."""
    return max(sum(int(value) ** 2 for value in row) for row in rows)


WILD = {
    "nothing": lambda rng, size: np.zeros(size),
    "usual": lambda rng, size: rng.normal(0.0, 0.5, size),
    "long": lambda rng, size: rng.normal(0.0, 1e3, size),
    "as large as a board may hold": lambda rng, size: np.full(size, 1e6),
    "mixed": lambda rng, size: rng.normal(0.0, 1.0, size) * 10.0 ** rng.integers(-6, 7, size),
}


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
@pytest.mark.parametrize("factors", WILD)
def test_no_row_is_longer_than_one_after_rounding(factors: str, backend: str) -> None:
    if backend != "numpy":
        pytest.importorskip("numba")
    cohort, rng = people(0, 1, 2, 3, 40, 2000), np.random.default_rng(1)
    made = WILD[factors](rng, (2000, 4))
    for targets in (
        None,
        rng.choice([-1.0, 1.0], cohort.n_ratings) * 10.0 ** rng.uniform(-30, 38, cohort.n_ratings),
    ):
        with np.errstate(all="ignore"):
            rows = rows_of(cohort, made, targets=targets, backend=backend)
        assert rows.dtype == np.int64
        assert rows.shape == (6, RIDGES.size)
        assert largest_norm(rows) <= ROW_ONE**2
        assert not rows[:2].any()  # nothing can be left out of one rating
        if factors == "nothing" and targets is None:
            assert np.abs(rows).max() <= 1  # no factors, no difference


def test_the_bound_is_reached_and_not_passed_where_ratings_tell_much() -> None:
    cohort = people(*[200] * 20)
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((2000, 3))
    targets = (factors @ [2.0, -1.0, 1.0])[cohort.items]

    rows = rows_of(cohort, factors, targets=targets)

    norms = np.linalg.norm(rows, axis=1) / ROW_ONE
    assert norms.max() <= 1.0
    assert norms.min() > 1.0 - 1e-5
    assert (rows < 0).all()  # all candidates explain more than none


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_removing_or_replacing_a_user_moves_the_sums_by_no_more_than_is_booked(adjacency: Adjacency) -> None:
    cohort = population(n_users=30)
    task = a_residual_task(adjacency=adjacency)
    board = residual_boards(task)[-1]
    (request,) = (r for r in task.requests(board) if r.name == NAME)
    whole = exact_sums(task, cohort, board)[NAME]
    opposite = with_ratings(cohort, 6.0 - cohort.ratings)
    moved = []
    for j in range(cohort.n_users):
        others = exact_sums(task, without(cohort, j), board)[NAME]
        moved.append(np.linalg.norm(whole - others))
        if adjacency is not Adjacency.ADD_REMOVE:
            alone = exact_sums(task, opposite.rows(j, j + 1), board)[NAME]
            moved.append(np.linalg.norm(whole - (others + alone)))
            for k in range(j):
                other = exact_sums(task, cohort.rows(k, k + 1), board)[NAME]
                moved.append(np.linalg.norm(whole - (others + other)))
    assert max(moved) <= request.release.l2_sensitivity
    booked = ROW_ONE * (1.0 if adjacency is Adjacency.ADD_REMOVE else 2.0)
    assert request.release.l2_sensitivity == pytest.approx(booked)
    assert max(moved) > 0.9 * ROW_ONE


def test_two_opposite_users_are_apart_by_what_replace_books() -> None:
    """One whom the factors explain, one whom they mislead: signs are mixed, so the factor is 2, not sqrt 2."""
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((2000, 2))
    both = people(60, 60)
    targets = (factors @ [1.0, 1.0])[both.items] * np.where(np.arange(120) < 60, 1.0, 0.0)
    targets[60:] = 3.0 * rng.standard_normal(60)
    best = 0.0
    for _ in range(200):  # of people with nothing but noise, the one for whom all candidates are worst
        targets[60:] = 3.0 * rng.standard_normal(60)
        rows = rows_of(both, factors, targets=targets).astype(float)
        best = max(best, float(np.linalg.norm(rows[0] - rows[1])) / ROW_ONE)
    assert np.sqrt(2.0) + 0.1 < best <= 2.0


def test_the_noise_of_the_evidence_is_that_of_the_plan_and_of_what_is_weighed() -> None:
    """A factor of 1.25 in the noise, in what is booked or in what is assumed would be seen."""
    task = a_residual_task()
    z = task.settings.shared.noise_multipliers[NAME]
    request = evidence_request(task.settings.shared, 3)

    assert request.release.noise_multiplier == z
    assert request.release.l2_bound == ROW_ONE
    assert real_stddev(request) == pytest.approx(z)
    draws = np.concatenate(
        [
            request.release.noise_stddev * SeededNoise(seed).stream(NAME).normal(0, RIDGES.size)
            for seed in range(300)
        ]
    )
    found = float(np.std(draws)) * request.release.grid_step / z
    assert 0.95 < found < 1.05
    assert not 0.95 < 1.25 * found < 1.05
    assert not 0.95 < 0.8 * found < 1.05


def told_apart(task: Residual, board: Board, cohort: Cohort) -> set[str]:
    return set(task.contribute(cohort, board, task.requests(board)).totals)


def test_ridges_are_asked_for_from_the_second_alternation_of_ratings_on(cohort: Cohort) -> None:
    for settings, named in (({}, {2, 3}), ({"ridge_evidence": False}, set()), (PRESENCE, set())):
        task = a_residual_task(**settings)
        rated = replace(cohort, ratings=np.ones_like(cohort.ratings)) if settings is PRESENCE else cohort
        asked = {name for board in residual_boards(task) for name in told_apart(task, board, rated)}
        assert {name for name in asked if name.endswith("ridges")} == {f"round-{t}/ridges" for t in named}
        implicit = task.settings.shared.feedback is Feedback.IMPLICIT
        assert ("users" in asked) == implicit
        assert ("moments" in asked) != implicit


def test_absurd_boards_and_ratings_keep_the_whole_round_within_its_bounds(cohort: Cohort) -> None:
    """What cannot be computed tells nothing, and nobody is refused for having rated an item."""
    task = a_residual_task()
    board = residual_boards(task)[-1]
    factors = np.array(board.arrays["item_factors"])
    factors[:5] = 1e6
    absurd = replace(board, arrays={**board.arrays, "item_factors": factors}, _digest=[])
    for ratings in (cohort.ratings, np.full_like(cohort.ratings, 3e38)):
        rows = task.contribute(with_ratings(cohort, ratings), absurd, task.requests(absurd))
        assert rows_within_bounds(rows, task.requests(absurd)).all()
    wrong = with_ratings(cohort, np.full_like(cohort.ratings, np.nan))
    with pytest.raises(PrivacyError), np.errstate(all="ignore"):
        task.contribute(wrong, board, task.requests(board))
