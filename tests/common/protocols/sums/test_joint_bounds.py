"""The trusted protocol and bounds on what a user's numbers do together: a whole contribution, a unit vector."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.algorithms.residual.config import Curvature, Start
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, SumSource
from fedboard.common.contribution_bounding.clipping import (
    RESPONSE_BOUND,
    WEIGHT_ONE,
    check_rows,
)
from fedboard.common.errors import PrivacyError
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import (
    Trusted,
    rows_within_bounds,
)
from tests.common.algorithms.conftest import N_USERS, a_residual_task, population, residual_boards

TASK = a_residual_task(
    start=Start.SPECTRAL, clip_norm=0.5, bias_clip_norm=0.5, clip_quantile=0.5, curvature=Curvature.RELEASED
)
BOARDS = residual_boards(TASK)
BIASES, PAIRS, ALTERNATION = BOARDS[1], BOARDS[2], BOARDS[-2]
USER = 5


def rows(board: Board) -> Contribution:
    return TASK.contribute(population(), board, TASK.requests(board))


def others(board: Board) -> dict[str, np.ndarray]:
    """The honest sums without the user's entries and numbers."""
    keep = np.arange(N_USERS) != USER
    return whole_sums(FactoredSums.of(rows(board), keep=keep), TASK.requests(board))


def swell_residuals(c: Contribution) -> Contribution:
    """Every single number stays allowed; together they are several times the clipping norm."""
    responses = c.responses.copy()
    responses[c.indptr[USER] : c.indptr[USER + 1]] = 4096
    return replace(c, responses=responses)


def swell_vector(c: Contribution) -> Contribution:
    vectors = c.vectors.copy()
    vectors[USER] = 0
    vectors[USER, 0] = 4096
    return replace(c, vectors=vectors)


def swell_weights(c: Contribution) -> Contribution:
    """All of her weight on the one item where her residual is largest."""
    weights, own = c.weights.copy(), slice(c.indptr[USER], c.indptr[USER + 1])
    largest = int(np.argmax(np.abs(c.responses[own])))
    weights[own] = 0
    weights[own][largest] = WEIGHT_ONE
    return replace(c, weights=weights)


@pytest.mark.parametrize("board", [BIASES, ALTERNATION], ids=["biases", "alternation"])
@pytest.mark.parametrize("attack", [swell_residuals, swell_vector, swell_weights])
def test_a_row_that_keeps_every_bound_but_the_joint_one_is_dropped(
    board: Board, attack: Callable[[Contribution], Contribution]
) -> None:
    requests, hostile = TASK.requests(board), attack(rows(board))
    singly = check_rows(
        hostile.indptr,
        hostile.items,
        n_items=hostile.n_items,
        vectors=hostile.vectors,
        weights=hostile.weights,
        responses=hostile.responses,
    )
    assert not singly.any()

    combined = Trusted().combine([hostile], requests)

    assert combined.rejected_rows == 1
    for name, expected in others(board).items():
        np.testing.assert_array_equal(whole_sums(combined, requests)[name], expected)
    with pytest.raises(PrivacyError, match="nothing was sent"):
        Trusted().encode(hostile, requests)


def test_a_row_for_pairs_beyond_the_unit_bound_is_dropped() -> None:
    requests, honest = TASK.requests(PAIRS), rows(PAIRS)
    responses = honest.responses.copy()
    own = slice(honest.indptr[USER], honest.indptr[USER + 1])
    responses[own] = np.sign(responses[own]) * (np.abs(responses[own]) + 60)
    hostile = replace(honest, responses=responses)
    assert np.abs(responses).max() <= RESPONSE_BOUND

    combined = Trusted().combine([hostile], requests)

    assert combined.rejected_rows == 1
    np.testing.assert_array_equal(whole_sums(combined, requests)["pairs"], others(PAIRS)["pairs"])
    with pytest.raises(PrivacyError, match="nothing was sent"):
        Trusted().encode(hostile, requests)


def drop_the_responses(c: Contribution) -> Contribution:
    return replace(c, responses=None)


def widen_the_responses(c: Contribution) -> Contribution:
    return replace(c, responses=c.responses.astype(np.int64))


def claim_another_catalogue(c: Contribution) -> Contribution:
    return replace(c, n_items=c.n_items + 1)


@pytest.mark.parametrize("attack", [drop_the_responses, widen_the_responses, claim_another_catalogue])
def test_a_message_for_pairs_of_another_shape_is_dropped_whole(
    attack: Callable[[Contribution], Contribution],
) -> None:
    requests, cohort = TASK.requests(PAIRS), population()
    first, second = (
        TASK.contribute(c, PAIRS, requests) for c in (cohort.rows(0, 20), cohort.rows(20, N_USERS))
    )

    combined = Trusted().combine([Trusted().encode(first, requests), attack(second)], requests)

    assert combined.rejected_rows == N_USERS - 20
    expected = whole_sums(FactoredSums.of(first), requests)["pairs"]
    np.testing.assert_array_equal(whole_sums(combined, requests)["pairs"], expected)


@pytest.mark.parametrize(
    ("board", "source"),
    [
        (BIASES, SumSource.ITEM_COUNT),
        (BIASES, SumSource.QUADRATIC),
        (PAIRS, SumSource.ITEM_PAIRS),
        (ALTERNATION, SumSource.QUADRATIC),
        (ALTERNATION, SumSource.ITEM_QUADRATIC),
    ],
)
def test_a_release_that_declares_less_than_anything_enforces_is_refused(
    board: Board, source: SumSource
) -> None:
    """Noise would be drawn for a bound that nobody is held to."""
    requests = [
        replace(r, release=replace(r.release, l2_bound=r.release.l2_bound - 1)) if r.source is source else r
        for r in TASK.requests(board)
    ]
    assert [r for r in requests if r not in TASK.requests(board)]

    for message in (Trusted().encode, lambda c, asked: Trusted().combine([c], asked)):
        with pytest.raises(PrivacyError, match="only checked against"):
            message(rows(board), requests)


def test_a_smaller_total_and_a_smaller_joint_bound_are_enforced_as_declared() -> None:
    sent = rows(ALTERNATION)
    rated = np.diff(sent.indptr) > 0
    products = np.square(sent.weights.astype(float) * sent.responses)
    starts = np.repeat(np.arange(rated.size), np.diff(sent.indptr))
    squares = np.bincount(starts, products, minlength=rated.size)
    norms = np.sqrt(squares) * np.linalg.norm(sent.vectors.astype(float), axis=1)
    middle = int(np.median(norms[rated]))
    for source, bound in ((SumSource.ITEM_LINEAR, middle), (SumSource.TOTAL, None)):
        requests = [
            replace(r, release=replace(r.release, l2_bound=bound or r.release.l2_bound // 2))
            if r.source is source
            else r
            for r in TASK.requests(ALTERNATION)
        ]
        kept = rows_within_bounds(sent, requests)
        # Everybody's row of the quantile has the same norm, but for who rated nothing and says nothing.
        expected = norms <= middle if source is SumSource.ITEM_LINEAR else ~rated
        np.testing.assert_array_equal(kept, expected)


def test_an_honest_run_is_never_dropped() -> None:
    for board in BOARDS:
        requests = TASK.requests(board)
        combined = Trusted().combine([Trusted().encode(rows(board), requests)], requests)
        assert combined.rejected_rows == 0
