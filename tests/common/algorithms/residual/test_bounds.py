"""What residual alternating minimisation promises about single users, at every stage of a run."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.algorithms.residual.config import Curvature, StageKind, Start, stage_of
from fedboard.common.algorithms.residual.device import ItemModel, Unclipped, fit_users, residuals, user_ridge
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import SumSource
from fedboard.common.protocols.sums.exact import FactoredSums
from fedboard.common.protocols.trusted import rows_within_bounds
from tests.common.algorithms.conftest import (
    N_ITEMS,
    SPREAD,
    a_residual_task,
    largest_linear,
    largest_shares,
    population,
    presence,
    residual_boards,
)

STARTS, QUANTILES = list(Start), [None, 0.5]
FEEDBACKS: dict[Feedback, dict[str, object]] = {
    Feedback.EXPLICIT: {},
    Feedback.IMPLICIT: {
        "feedback": Feedback.IMPLICIT,
        "unobserved_weight": 0.1,
        "item_unobserved_weight": 0.05,
        "head_fraction": 0.7,
    },
}


def rated(feedback: Feedback) -> Cohort:
    return population() if feedback is Feedback.EXPLICIT else presence(population())


def with_ratings(cohort: Cohort, ratings: np.ndarray) -> Cohort:
    return replace(cohort, ratings=ratings.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("clip_quantile", QUANTILES)
@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_no_user_moves_a_sum_by_more_than_the_booked_bound(
    start: Start, clip_quantile: float | None, feedback: Feedback
) -> None:
    task = a_residual_task(
        start=start,
        clip_quantile=clip_quantile,
        clip_norm=0.5 if feedback is Feedback.EXPLICIT else 0.15,
        bias_clip_norm=0.4,
        curvature=Curvature.RELEASED,
        **FEEDBACKS[feedback],
    )

    largest = largest_shares(task, rated(feedback), residual_boards(task))

    assert largest.keys() == task.settings.shared.noise_multipliers.keys()
    assert max(largest.values()) <= 1.0
    # The bounds are not idle either: somebody's whole contribution is clipped to just below them.
    clipped = {name: share for name, share in largest.items() if name.endswith("/linear")}
    assert len(clipped) == (4 if feedback is Feedback.EXPLICIT else 3)
    assert min(clipped.values()) > 0.99
    first = "users" if feedback is Feedback.IMPLICIT else "moments"
    for name in ("counts", "weighted-counts", first, *(["pairs"] if start is Start.SPECTRAL else [])):
        assert largest[name] > 0.95
    ridges = {name for name in largest if name.endswith("/ridges")}
    assert ridges == ({"round-2/ridges", "round-3/ridges"} if feedback is Feedback.EXPLICIT else set())
    assert all(largest[name] > 0.9 for name in ridges)


@pytest.mark.slow
@pytest.mark.parametrize("clip_norm", [0.01, 1.0, 2 * 1.3])
def test_the_bound_holds_for_very_small_and_very_large_norms(clip_norm: float) -> None:
    task = a_residual_task(clip_norm=clip_norm, bias_clip_norm=min(clip_norm, 2.0))

    assert max(largest_shares(task, population(), residual_boards(task)).values()) <= 1.0


@pytest.mark.parametrize("stage", [StageKind.BIASES, StageKind.ALTERNATION])
def test_without_the_joint_clip_the_booked_bound_would_not_hold(stage: StageKind) -> None:
    task = a_residual_task(clip_norm=0.5, bias_clip_norm=0.5)
    settings, cohort, boards = task.settings, population(), residual_boards(task)
    board = boards[1] if stage is StageKind.BIASES else boards[-1]
    requests = task.requests(board)
    model = ItemModel(
        mean=3.4, biases=board.arrays["item_biases"], factors=np.asarray(board.arrays["item_factors"])
    )
    local = fit_users(cohort, model, settings, backend="numpy", user_ridge=user_ridge(board, settings))
    vectors = np.full((cohort.n_users, 1), settings.bias_scale)
    if stage is StageKind.ALTERNATION:
        vectors = np.hstack([vectors, local[:, 1:]])
    part = Unclipped.of(
        cohort,
        task.weigh(cohort, board),
        residuals(cohort, local, model) / SPREAD,
        vectors,
        residual_bound=settings.residual_bound,
        vector_bound=settings.vector_bound if stage is StageKind.ALTERNATION else settings.bias_scale,
    )

    bound = 0.5
    clipped, twin = part.clipped(part.norms(), bound), part.clipped(np.zeros(cohort.n_users), bound)

    honest = task.contribute(cohort, board, requests)
    np.testing.assert_array_equal(clipped.vectors, honest.vectors)
    np.testing.assert_array_equal(clipped.responses, honest.responses)
    assert largest_linear(honest, requests) <= 1.0
    assert largest_linear(twin, requests) > 1.5
    # Whoever sends that is noticed on the device and at the aggregator.
    assert rows_within_bounds(honest, requests).all()
    assert not rows_within_bounds(replace(twin, totals=honest.totals), requests).all()


@pytest.mark.parametrize("clip_quantile", QUANTILES)
@pytest.mark.parametrize("feedback", FEEDBACKS)
def test_users_without_ratings_and_with_one_can_take_part(
    clip_quantile: float | None, feedback: Feedback
) -> None:
    settings = {**FEEDBACKS[feedback], "head_fraction": 1.0}
    task = a_residual_task(start=Start.SPECTRAL, clip_quantile=clip_quantile, **settings)
    nobody_and_one = Cohort(
        indptr=np.array([0, 0, 1]),
        items=np.array([4], dtype=np.int32),
        ratings=np.array([5.0], dtype=np.float32),
        n_items=N_ITEMS,
    )
    for board in residual_boards(task):
        requests = task.requests(board)
        rows = task.contribute(nobody_and_one, board, requests)
        assert rows_within_bounds(rows, requests).all()
        for request in requests:
            if request.source is SumSource.ITEM_LINEAR:
                sums = FactoredSums.of(rows).block([request], 0, N_ITEMS)[request.name]
                assert np.flatnonzero(sums.any(axis=1)).tolist() == [4]
        if rows.weights is not None and stage_of(board.version, task.settings).kind is StageKind.BIASES:
            assert rows.weights.tolist() == [1 << 14]
