"""What users give to algorithms on ratings: each row is hers alone and within its bounds, whatever she rates."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedboard.common.algorithms.residual.config import Curvature, Start
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protocols.sums.row_bounds import rows_within_bounds
from tests.common.algorithms.adadpsgd import test_task as adadpsgd
from tests.common.algorithms.bias_private.test_task import a_task as a_bias_task
from tests.common.algorithms.conftest import (
    N_USERS,
    PRESENCE,
    a_prepared_board,
    a_residual_task,
    a_task,
    exact_sums,
    population,
    presence,
    residual_boards,
    without,
)
from tests.common.algorithms.langevin.test_task import langevin_boards, langevin_task

PRESENCE_OF_STEPS = adadpsgd.FEEDBACKS[Feedback.IMPLICIT]
ABSURD = (1e30, -1e30, 3e38)
WRONG = (np.nan, np.inf)


@dataclass(frozen=True)
class Case:
    """A task, users, and a board for each of its rounds that are looked at."""

    task: Any
    boards: list[Board]
    cohort: Cohort

    @classmethod
    def of(cls, task: Any, boards: Callable[[Any], list[Board]]) -> "Case":
        explicit = task.settings.shared.feedback is Feedback.EXPLICIT
        users = population() if explicit else presence(population())
        keyed = replace(users, user_keys=np.arange(100, 100 + N_USERS, dtype=np.uint64))
        return cls(task=task, boards=boards(task), cohort=keyed)

    def rows(self, cohort: Cohort, board: Board) -> Contribution:
        given: Contribution = self.task.contribute(cohort, board, self.task.requests(board))
        return given


def prepared(task: Any) -> list[Board]:
    board = a_prepared_board(task)
    return [task.first_board(board.catalogue), board]


def steps(task: Any) -> list[Board]:
    return [adadpsgd.a_board(task, step) for step in (1, 2)]


def played(task: Any) -> list[Board]:
    return langevin_boards(task, population())[:-1]


def first(task: Any) -> list[Board]:
    return [task.first_board(Catalogue(item_ids=tuple(map(str, range(population().n_items)))))]


CASES: dict[str, Callable[[], Case]] = {
    **{f"adadpals, {w}": lambda w=w: Case.of(a_task(weights=w), prepared) for w in WeightScheme},
    **{
        f"adadpsgd, {w}": lambda w=w: Case.of(adadpsgd.a_task(weights=w, steps_per_solve=2), steps)
        for w in WeightScheme
    },
    "adadpsgd, presence": lambda: Case.of(adadpsgd.a_task(steps_per_solve=2, **PRESENCE_OF_STEPS), steps),
    "adadpsgd, clipped": lambda: Case.of(adadpsgd.a_task(gradient_clip=0.2), steps),
    "langevin": lambda: Case.of(langevin_task(), played),
    "bias-private": lambda: Case.of(a_bias_task(), first),
    **{
        f"residual, {start}, {quantile}, {'presence' if presence else 'ratings'}": (
            lambda start=start, quantile=quantile, presence=presence: Case.of(
                a_residual_task(
                    start=start, clip_quantile=quantile, curvature=Curvature.RELEASED, **presence
                ),
                residual_boards,
            )
        )
        for start, quantile, presence in itertools.product(Start, (None, 0.5), ({}, PRESENCE))
    },
}
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("residual")) for name in CASES]
)
OF_RATINGS = [name for name in CASES if "presence" not in name]


@EACH
def test_removing_a_user_changes_the_sums_by_her_row_to_the_last_bit(name: str) -> None:
    case = CASES[name]()
    for board in case.boards:
        everybody = exact_sums(case.task, case.cohort, board)
        for user in (0, 1, 7, N_USERS - 1):
            others = exact_sums(case.task, without(case.cohort, user), board)
            alone = exact_sums(case.task, case.cohort.rows(user, user + 1), board)
            for release, total in everybody.items():
                np.testing.assert_array_equal(total - others[release], alone[release])


@EACH
def test_contributions_do_not_depend_on_how_users_are_split(name: str) -> None:
    case = CASES[name]()
    for board in case.boards:
        whole = case.rows(case.cohort, board)
        for cuts in ([0, 1, N_USERS], [0, 13, 14, 30, N_USERS], list(range(N_USERS + 1))):
            parts = [case.rows(case.cohort.rows(*span), board) for span in itertools.pairwise(cuts)]
            for field in ("vectors", "weights", "responses"):
                if getattr(whole, field) is not None:
                    joined = np.concatenate([getattr(part, field) for part in parts])
                    np.testing.assert_array_equal(joined, getattr(whole, field))
            for release, rows in whole.totals.items():
                np.testing.assert_array_equal(np.concatenate([p.totals[release] for p in parts]), rows)


@EACH
@pytest.mark.parametrize("absurd", ABSURD)
def test_absurd_ratings_stay_within_the_bounds_and_are_hers_alone(name: str, absurd: float) -> None:
    case = CASES[name]()
    ratings = case.cohort.ratings.copy()
    ratings[:50], ratings[60] = absurd, absurd
    last = int(np.searchsorted(case.cohort.indptr, 60, side="right"))
    for board in case.boards:
        rows = case.rows(replace(case.cohort, ratings=ratings), board)
        assert rows_within_bounds(rows, case.task.requests(board)).all()
        honest = case.rows(case.cohort.rows(last, N_USERS), board)
        if rows.responses is not None and honest.responses is not None:
            entries = slice(case.cohort.indptr[last], None)
            np.testing.assert_array_equal(rows.responses[entries], honest.responses)


@pytest.mark.parametrize("name", OF_RATINGS)
@pytest.mark.parametrize("wrong", WRONG)
def test_ratings_that_are_not_numbers_never_leave_the_device(name: str, wrong: float) -> None:
    case = CASES[name]()
    ratings = case.cohort.ratings.copy()
    ratings[3] = wrong
    for board in case.boards:
        with pytest.raises((PrivacyError, InputError)), np.errstate(invalid="ignore", over="ignore"):
            case.rows(replace(case.cohort, ratings=ratings), board)
