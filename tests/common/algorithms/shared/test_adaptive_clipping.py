"""AdaDPALS with a clipping norm that follows a private quantile of the users' norms."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig, BudgetShares
from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.shared.adaptive_clipping import PRESENCE_BOUND, ClippedSettings
from fedboard.common.algorithms.shared.ratings_config import Feedback, from_written
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import SumSource
from fedboard.common.contribution_bounding.clipping import VECTOR_BOUND
from fedboard.common.errors import InputError
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from tests.common.algorithms.conftest import a_prepared_board, a_task, booked_run, population, presence

MANY = 1500


def norms(task: AdaDpals, cohort: Cohort, board: Board) -> np.ndarray:
    return np.linalg.norm(task.fit_local(cohort, board).astype(np.float64), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("feedback", list(Feedback))
@pytest.mark.parametrize("start", [8.0, 0.05])
def test_a_bad_first_clipping_norm_is_mended_round_by_round(
    feedback: Feedback, start: float, tmp_path: Path
) -> None:
    cohort = population(n_users=MANY)
    cohort = cohort if feedback is Feedback.EXPLICIT else presence(cohort)
    task = a_task(20.0, feedback=feedback, rounds=9, clip_norm=start, clip_quantile=0.5)

    boards = booked_run(task, cohort, tmp_path, epsilon=20.0)

    bounds = [float(board.arrays["clip_norm"][0]) for board in boards if "clip_norm" in board.arrays]
    assert len(set(bounds)) == 8  # the last round releases nothing about norms
    assert abs(np.mean(norms(task, cohort, boards[1]) <= start) - 0.5) > 0.4
    assert abs(np.mean(norms(task, cohort, boards[-2]) <= bounds[-1]) - 0.5) < 0.15


def test_the_grid_follows_the_clipping_norm_of_the_board(cohort: Cohort) -> None:
    task = a_task(clip_quantile=0.5, clip_norm=0.5)
    board = a_prepared_board(task)
    moved = replace(board, arrays={**board.arrays, "clip_norm": np.array([2.0])})

    before, after = ({r.source: r.release for r in task.requests(b)} for b in (board, moved))

    assert after[SumSource.ITEM_QUADRATIC].grid_step == 16 * before[SumSource.ITEM_QUADRATIC].grid_step
    assert after[SumSource.ITEM_LINEAR].grid_step == 4 * before[SumSource.ITEM_LINEAR].grid_step
    assert after[SumSource.ITEM_LINEAR].l2_bound == before[SumSource.ITEM_LINEAR].l2_bound
    vectors = task.contribute(cohort, moved, task.requests(moved)).vectors
    assert vectors is not None
    expected = np.minimum(norms(task, cohort, moved), 2.0) / 2.0 * VECTOR_BOUND
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - expected).max() < 2.0


def test_each_user_says_once_whether_she_is_within_and_one_without_ratings_nothing(cohort: Cohort) -> None:
    task = a_task(clip_quantile=0.5, clip_norm=0.7)
    board = a_prepared_board(task)
    requests = task.requests(board)
    rows = task.contribute(cohort, board, requests).totals["round-1/clip"]
    (release,) = (r.release for r in requests if r.source is SumSource.TOTAL)

    lengths = np.linalg.norm(rows, axis=1)
    rated = cohort.counts > 0
    assert release.l2_bound == PRESENCE_BOUND
    assert np.all(lengths[rated] == PRESENCE_BOUND)
    assert np.all(lengths[~rated] == 0)
    assert np.array_equal(rows[rated, 0] > 0, norms(task, cohort, board)[rated] <= 0.7)
    # Without the rows of user 1 the sums change by her row, to the last bit.
    kept = np.ones(cohort.n_ratings, dtype=np.bool_)
    kept[cohort.indptr[1] : cohort.indptr[2]] = False
    whole, others = (
        whole_sums(FactoredSums.of(task.contribute(c, board, requests)), requests)["round-1/clip"]
        for c in (cohort, cohort.where(kept))
    )
    assert np.array_equal((whole - others)[0], rows[1])


def test_the_last_round_and_a_run_of_one_round_release_no_norms() -> None:
    several = a_task(clip_quantile=0.5, rounds=3)
    single = a_task(clip_quantile=0.5, rounds=1)

    def asking(task: AdaDpals) -> list[str]:
        return [r.name for requests in task.plan() for r in requests if r.name.endswith("/clip")]

    assert asking(several) == ["round-1/clip", "round-2/clip"]
    assert asking(single) == []


def test_a_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"shares\.clip"):
        BudgetShares(clip=0.95)


@pytest.mark.parametrize(
    ("kind", "hostile"),
    [
        (AdaDpalsConfig, {"clip_norm": 1e307}),
        (AdaDpalsConfig, {"clip_norm": 5e-324}),
        (ResidualConfig, {"vector_bound": 1e308}),
        (ResidualConfig, {"clip_norm": 5e-324}),
    ],
)
def test_a_board_whose_norm_could_leave_the_numbers_is_refused(
    kind: type[ClippedSettings], hostile: dict[str, float]
) -> None:
    """The norm would be 0 or infinite some rounds later, with it the grid of every release."""
    assert from_written(hostile, kind).clip_quantile is None
    with pytest.raises(InputError, match="clip_norm must be finite and > 0 as far as"):
        from_written({**hostile, "clip_quantile": 0.5}, kind)
