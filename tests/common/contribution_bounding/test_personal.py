"""Personal levels: what a user gives shrinks exactly as much as her own epsilon says, release by release."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import RESPONSE_BOUND
from fedboard.common.contribution_bounding.personal import (
    SCALE_STEPS,
    personal_release,
    personal_scale,
    plan_scale,
    require_personal_bounds,
    scale_contribution,
    squared_norms,
)
from fedboard.common.contribution_bounding.weights import WeightScheme
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import compose, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.protocols.trusted import rows_within_bounds
from tests.common.algorithms.conftest import a_prepared_board, a_task, population, presence

DELTA = 1e-5
TASKS = {
    "explicit": a_task(),
    "implicit": a_task(feedback=Feedback.IMPLICIT),
    "clipped": a_task(weights=WeightScheme.ADAPTIVE_CLIPPED),
    "replace": a_task(adjacency=Adjacency.REPLACE),
}


def cohort_of(task: AdaDpals) -> Cohort:
    cohort = population(1)
    return presence(cohort) if task.settings.shared.feedback is Feedback.IMPLICIT else cohort


def rounds_of(task: AdaDpals) -> list[tuple[Board, tuple[Request, ...]]]:
    first = task.first_board(a_prepared_board(task).catalogue)
    return [(board, task.requests(board)) for board in (first, a_prepared_board(task))]


def random_scales(n_users: int, seed: int = 0) -> FloatArray:
    steps = np.random.default_rng(seed).integers(1, SCALE_STEPS + 1, n_users)
    steps[:3] = [1, SCALE_STEPS, SCALE_STEPS // 2]
    return steps / SCALE_STEPS


def slow_squared_norm(rows: Contribution, request: Request, user: int) -> int:
    """The whole stack of one user's contribution, entry by entry, in Python's integers."""
    place = slice(int(rows.indptr[user]), int(rows.indptr[user + 1]))
    weights = [] if rows.weights is None else [int(w) for w in rows.weights[place]]
    responses = [] if rows.responses is None else [int(r) for r in rows.responses[place]]
    vector = [] if rows.vectors is None else [int(v) for v in rows.vectors[user]]
    match request.source:
        case SumSource.TOTAL:
            stack = [int(x) for x in rows.totals[request.name][user]]
        case SumSource.ITEM_COUNT:
            stack = weights
        case SumSource.ITEM_LINEAR:
            stack = [w * r * v for w, r in zip(weights, responses, strict=True) for v in vector]
        case SumSource.ITEM_QUADRATIC:
            stack = [w * a * b for w in weights for a in vector for b in vector]
        case SumSource.QUADRATIC:
            stack = [a * b for a in vector for b in vector]
        case SumSource.ITEM_PAIRS:
            stack = [a * b for a in responses for b in responses]
    return sum(x * x for x in stack)


@pytest.mark.parametrize("name", TASKS)
def test_each_user_stays_within_her_part_of_every_bound(name: str) -> None:
    task = TASKS[name]
    cohort = cohort_of(task)
    scales = random_scales(cohort.n_users)
    for board, requests in rounds_of(task):
        given = scale_contribution(task.contribute(cohort, board, requests), requests, scales)

        require_personal_bounds(given, requests, scales)
        assert rows_within_bounds(given, requests).all()
        for request in requests:
            for user, scale in enumerate(scales):
                norm = slow_squared_norm(given, request, user)
                assert norm == squared_norms(given, request)[user]
                assert norm <= (Fraction(scale) * request.release.l2_bound) ** 2


@pytest.mark.parametrize("name", TASKS)
def test_a_user_who_gives_all_gives_what_she_gave_before(name: str) -> None:
    task = TASKS[name]
    cohort = cohort_of(task)
    for board, requests in rounds_of(task):
        whole = task.contribute(cohort, board, requests)
        given = scale_contribution(whole, requests, np.ones(cohort.n_users))

        for request in requests:
            assert (squared_norms(given, request) == squared_norms(whole, request)).all()


def test_a_round_that_asks_for_everything_at_once_keeps_every_bound() -> None:
    """Counts and item statistics share the weights, so neither may be scaled as if it were alone."""
    task = TASKS["implicit"]
    cohort, ((_, first), (board, second)) = cohort_of(task), rounds_of(task)
    requests = (*second, *(request for request in first if request.source is SumSource.ITEM_COUNT))
    scales = random_scales(cohort.n_users)
    whole = task.contribute(cohort, board, second)

    for asked in (requests, requests[:2] + requests[3:]):  # with and without the Gram matrix of all users
        given = scale_contribution(whole, asked, scales)
        require_personal_bounds(given, asked, scales)
        assert given.responses is whole.responses
    assert given.vectors is whole.vectors


def test_pairs_of_responses_shrink_like_everything_else() -> None:
    task = TASKS["explicit"]
    cohort, (board, requests) = cohort_of(task), rounds_of(task)[1]
    bound = RESPONSE_BOUND**2
    pairs = Request(source=SumSource.ITEM_PAIRS, release=replace(requests[0].release, l2_bound=bound))
    rows = task.contribute(cohort, board, requests)
    own = np.maximum(np.repeat(cohort.counts, cohort.counts), 1)
    rows = replace(rows, responses=np.trunc(RESPONSE_BOUND / np.sqrt(own)).astype(np.int16))
    scales = random_scales(cohort.n_users)

    for asked in ([pairs], [*requests, pairs], [pairs, rounds_of(task)[0][1][-1]]):
        given = scale_contribution(rows, asked, scales)
        require_personal_bounds(given, asked, scales)
        for user, scale in enumerate(scales):
            assert slow_squared_norm(given, pairs, user) <= (Fraction(scale) * bound) ** 2


def scaled_by_weights_alone(rows: Contribution, scales: FloatArray) -> Contribution:
    """A twin that forgets the releases without weights, such as the Gram matrix of all users."""
    assert rows.weights is not None
    of_entry = np.repeat(scales, np.diff(rows.indptr))
    return replace(rows, weights=np.trunc(rows.weights * of_entry).astype(np.int16))


def scaled_by_vectors_alone(rows: Contribution, scales: FloatArray) -> Contribution:
    """A twin that forgets the responses, so that the right-hand sides keep a root of s too much."""
    assert rows.vectors is not None
    root = np.sqrt(scales)[:, None]
    return replace(rows, vectors=np.trunc(rows.vectors * root).astype(np.int16))


@pytest.mark.parametrize("twin", [scaled_by_weights_alone, scaled_by_vectors_alone])
def test_twins_that_forget_an_ingredient_are_refused(twin: object) -> None:
    task = TASKS["implicit"]
    cohort, (board, requests) = cohort_of(task), rounds_of(task)[1]
    loose = a_task(feedback=Feedback.IMPLICIT, clip_norm=0.01)  # every vector is at its bound
    scales = np.full(cohort.n_users, 0.25)
    whole = loose.contribute(cohort, board, requests)

    require_personal_bounds(scale_contribution(whole, requests, scales), requests, scales)
    with pytest.raises(PrivacyError, match="user's own epsilon"):
        require_personal_bounds(twin(whole, scales), requests, scales)  # type: ignore[operator]


@pytest.mark.parametrize("beyond", ["totals", "weights"])
def test_one_unit_too_much_is_refused(beyond: str) -> None:
    task = TASKS["clipped"]
    cohort, (board, requests) = cohort_of(task), rounds_of(task)[0]
    scales = np.full(cohort.n_users, 0.5)
    given = scale_contribution(task.contribute(cohort, board, requests), requests, scales)
    require_personal_bounds(given, requests, scales)
    if beyond == "totals":
        given = replace(given, totals={**given.totals, "users": given.totals["users"] + 1})
    else:
        assert given.weights is not None
        weights = given.weights.copy()
        weights[given.indptr[1]] = 8193  # one more than half of 2^14, alone more than her whole part
        given = replace(given, weights=weights)

    with pytest.raises(PrivacyError, match="user's own epsilon"):
        require_personal_bounds(given, requests, scales)


def test_a_message_beyond_the_public_bounds_is_refused_too() -> None:
    task = TASKS["explicit"]
    cohort, (board, requests) = cohort_of(task), rounds_of(task)[1]
    rows = task.contribute(cohort, board, requests)
    assert rows.vectors is not None
    hostile = replace(rows, vectors=np.full_like(rows.vectors, 32767))

    with pytest.raises(PrivacyError, match="declared bound"):
        require_personal_bounds(hostile, requests, np.ones(cohort.n_users))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 4.999])
def test_her_own_epsilon_is_kept_over_the_whole_run(name: str, epsilon: float) -> None:
    task = TASKS[name]
    releases = [request.release for requests in task.plan() for request in requests]
    mu_run = compose(release.noise_multiplier for release in releases)

    scale = personal_scale(epsilon, DELTA, mu_run)
    assert scale == plan_scale(releases, epsilon, DELTA)
    own = [personal_release(release, scale) for release in releases]
    hers = epsilon_of(DELTA, mu=compose(release.noise_multiplier for release in own))
    one_step_more = epsilon_of(DELTA, mu=(scale + 1 / SCALE_STEPS) * mu_run)

    assert hers <= epsilon < one_step_more
    for release, mine in zip(releases, own, strict=True):
        assert mine.noise_stddev == pytest.approx(release.noise_stddev, rel=1e-12)
        assert mine.l2_bound == scale * release.l2_bound  # exactly: 4096 divides every bound of this package


def test_a_bound_that_does_not_divide_is_rounded_up_and_her_epsilon_still_kept() -> None:
    release = replace(TASKS["explicit"].plan()[0][0].release, l2_bound=11, noise_multiplier=1.0)

    assert personal_release(release, 0.5).l2_bound == 6
    with pytest.raises(PrivacyError, match="cannot take part"):
        plan_scale([release], 0.3, DELTA)  # a bound of 1 is the least there is
    for epsilon in (0.5, 1.0, 2.0):
        scale = plan_scale([release], epsilon, DELTA)
        hers = [personal_release(release, s).noise_multiplier for s in (scale, scale + 1 / SCALE_STEPS)]
        assert epsilon_of(DELTA, mu=1 / hers[0]) <= epsilon < epsilon_of(DELTA, mu=1 / hers[1])


def test_a_stricter_epsilon_than_the_grid_can_say_is_refused() -> None:
    with pytest.raises(PrivacyError, match="cannot take part"):
        personal_scale(1e-9, 1e-9, 5.0)
    with pytest.raises(PrivacyError, match="finite number > 0"):
        personal_scale(1.0, DELTA, float("inf"))


@pytest.mark.parametrize("scale", [0.0, -0.5, 1.5, 0.3, float("nan"), float("inf"), 1 / 8192])
def test_a_scale_off_the_grid_is_refused(scale: float) -> None:
    task = TASKS["explicit"]
    cohort, (board, requests) = cohort_of(task), rounds_of(task)[0]
    rows = task.contribute(cohort, board, requests)

    with pytest.raises(PrivacyError, match="multiple"):
        personal_release(requests[0].release, scale)
    with pytest.raises(PrivacyError, match="multiple"):
        scale_contribution(rows, requests, np.full(cohort.n_users, scale))


def test_sampled_rounds_have_no_personal_levels() -> None:
    task = TASKS["explicit"]
    cohort, (board, requests) = cohort_of(task), rounds_of(task)[0]
    stated = {"kind": "poisson", "probability": 0.5, "round": "preparation"}
    sampled = [replace(r, release=replace(r.release, participation=stated)) for r in requests]
    rows = task.contribute(cohort, board, requests)

    with pytest.raises(PrivacyError, match="no personal levels"):
        personal_release(sampled[0].release, 0.5)
    with pytest.raises(PrivacyError, match="no personal levels"):
        scale_contribution(rows, sampled, np.full(cohort.n_users, 0.5))
    assert scale_contribution(rows, sampled, np.ones(cohort.n_users)).n_users == cohort.n_users


def test_there_is_one_scale_for_each_user() -> None:
    task = TASKS["explicit"]
    cohort, (board, requests) = cohort_of(task), rounds_of(task)[0]

    with pytest.raises(InputError, match="one number per user"):
        scale_contribution(task.contribute(cohort, board, requests), requests, np.ones(cohort.n_users - 1))


def test_half_a_user_gives_half_of_every_sum() -> None:
    """To the grid: the mean of both sums, and every entry of the item statistics."""
    task = TASKS["implicit"]
    cohort = cohort_of(task)
    for board, requests in rounds_of(task):
        whole = task.contribute(cohort, board, requests)
        given = scale_contribution(whole, requests, np.full(cohort.n_users, 0.5))
        for request in requests:
            before = np.sqrt(squared_norms(whole, request).astype(float))
            after = np.sqrt(squared_norms(given, request).astype(float))
            np.testing.assert_allclose(after, 0.5 * before, atol=0.004 * request.release.l2_bound)


def test_large_totals_shrink_without_overflow() -> None:
    request = TASKS["explicit"].plan()[0][0]
    large = Request(source=SumSource.TOTAL, release=replace(request.release, l2_bound=1 << 61))
    rows = Contribution(
        n_items=1,
        indptr=np.zeros(3, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        totals={large.name: np.array([[1 << 61], [-(1 << 61) + 1]], dtype=np.int64)},
    )
    scales = np.array([0.5, 0.75])

    given = scale_contribution(rows, [large], scales)
    require_personal_bounds(given, [large], scales)

    assert given.totals[large.name][:, 0].tolist() == [1 << 60, -((3 * ((1 << 61) - 1)) >> 2)]
