"""Combining the messages of many clients: the good rows to the last bit, the others counted, whatever is sent."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import Trusted
from tests.common.algorithms.conftest import (
    N_ITEMS,
    N_USERS,
    a_prepared_board,
    a_residual_task,
    a_task,
    population,
    residual_boards,
)
from tests.simulations.audit.hostile import hostile_messages
from tests.thorough import examples

pytestmark = pytest.mark.slow

TASK, RESIDUAL = a_task(), a_residual_task()
ASKED = [
    (TASK, TASK.first_board(a_prepared_board(TASK).catalogue)),
    (TASK, a_prepared_board(TASK)),
    *((RESIDUAL, board) for board in residual_boards(RESIDUAL)[:-1]),
]
EVERY = range(len(ASKED))
TOTALS_ONLY, QUADRATIC_ONLY = 100, 101
N_GOOD = 8


def requests_of(asked: int) -> tuple[Request, ...]:
    """What a board asks; the two last ones are parts of what a board asks."""
    if asked == TOTALS_ONLY:
        return tuple(r for r in requests_of(0) if r.source is SumSource.TOTAL)
    if asked == QUADRATIC_ONLY:
        found = [r for k in EVERY for r in requests_of(k) if r.source is SumSource.QUADRATIC]
        return tuple(found[:1])
    task, board = ASKED[asked]
    return task.requests(board)


def board_that_asks(asked: int) -> int:
    wanted = {request.name for request in requests_of(asked)}
    return next(k for k in EVERY if wanted <= {r.name for r in requests_of(k)})


def rows(asked: int, start: int = 0, stop: int = N_USERS) -> Contribution:
    task, board = ASKED[board_that_asks(asked)]
    return task.contribute(population().rows(start, stop), board, task.requests(board))


def parts(asked: int) -> list[Contribution]:
    return [rows(asked, start, start + 5) for start in range(0, N_USERS, 5)]


def sums_of(asked: int, messages: list[Contribution]) -> tuple[dict[str, np.ndarray], int]:
    combined = Trusted().combine(messages, requests_of(asked))
    return whole_sums(combined, requests_of(asked)), combined.rejected_rows


def assert_sums(asked: int, messages: list[Contribution], *, rejected: int) -> None:
    """They are the sums of the good rows."""
    found, refused = sums_of(asked, messages)
    expected = whole_sums(FactoredSums.of(rows(asked)), requests_of(asked))
    assert refused == rejected
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


SMALL = np.int16(1)


def with_unasked_arrays(part: Contribution) -> Contribution:
    """Everything that a contribution can hold, where the honest one has less."""
    return replace(
        part,
        weights=np.full(part.items.size, SMALL) if part.weights is None else part.weights,
        responses=np.full(part.items.size, SMALL) if part.responses is None else part.responses,
        vectors=np.full((part.n_users, 9), SMALL) if part.vectors is None else part.vectors,
    )


def with_unasked_totals(part: Contribution) -> Contribution:
    return replace(part, totals={**part.totals, "secret": np.ones((part.n_users, 3), dtype=np.int64)})


def with_crooked_totals(part: Contribution) -> Contribution:
    crooked = {
        "short": np.ones((max(part.n_users - 1, 0), 3), dtype=np.int64),
        "flat": np.ones(2, dtype=np.int64),
        "narrow": np.ones((part.n_users, 0), dtype=np.int16),
    }
    return replace(part, totals={**part.totals, **crooked})


EXTRAS = [with_unasked_arrays, with_unasked_totals, with_crooked_totals]


@pytest.mark.parametrize("asked", [*EVERY, TOTALS_ONLY, QUADRATIC_ONLY])
@pytest.mark.parametrize("extra", EXTRAS)
def test_what_nobody_asked_for_changes_nothing(
    asked: int, extra: Callable[[Contribution], Contribution]
) -> None:
    messages = [extra(part) if k % 2 else part for k, part in enumerate(parts(asked))]

    assert_sums(asked, messages, rejected=0)
    assert_sums(asked, [extra(rows(asked))], rejected=0)


@pytest.mark.parametrize("asked", [*EVERY, TOTALS_ONLY, QUADRATIC_ONLY])
@pytest.mark.parametrize("extra", EXTRAS)
def test_a_broken_row_beside_arrays_that_nobody_asked_for_is_dropped_alone(
    asked: int, extra: Callable[[Contribution], Contribution]
) -> None:
    bad = a_broken_row(asked)

    assert_sums(asked, [extra(part) for part in (*parts(asked), bad)], rejected=1)


def a_broken_row(asked: int) -> Contribution:
    """A row that breaks a bound, beside rows that are empty."""
    few = rows(asked, 0, 1)
    if few.vectors is not None:
        return replace(few, vectors=np.full_like(few.vectors, 30_000))
    if few.totals:
        return replace(few, totals={n: np.full_like(v, 1 << 40) for n, v in few.totals.items()})
    item = np.array([N_ITEMS], dtype=np.int32)
    one = np.ones(1, dtype=np.int16)
    return Contribution(
        n_items=N_ITEMS,
        indptr=np.array([0, 1], dtype=np.int64),
        items=item,
        weights=None if few.weights is None else one,
        responses=None if few.responses is None else one,
    )


def of_another_rank(part: Contribution) -> Contribution:
    vectors = part.vectors
    return replace(part, vectors=None if vectors is None else np.hstack([vectors, vectors[:, :1]]))


Misfit = Callable[[Contribution], Contribution]
MISFITS: dict[str, tuple[Misfit, list[int]]] = {
    "of another rank": (of_another_rank, [1, QUADRATIC_ONLY]),
    "of another catalogue": (lambda c: replace(c, n_items=c.n_items + 1), [0, 1]),
    "without vectors": (lambda c: replace(c, vectors=None), [1, QUADRATIC_ONLY]),
    "without weights": (lambda c: replace(c, weights=None), [1]),
    "with wide weights": (lambda c: replace(c, weights=c.weights.astype(np.int32)), [0, 1]),
    "with flat vectors": (
        lambda c: replace(c, vectors=np.zeros(c.n_users, dtype=np.int16)),
        [1, QUADRATIC_ONLY],
    ),
    "with a frame that runs back": (lambda c: replace(c, indptr=np.ascontiguousarray(c.indptr[::-1])), [1]),
    "with a frame of small numbers": (lambda c: replace(c, indptr=c.indptr.astype(np.uint8)), [1]),
    "without totals": (lambda c: replace(c, totals={}), [0, TOTALS_ONLY]),
    "with a short total": (lambda c: replace(c, totals={n: v[:1] for n, v in c.totals.items()}), [0]),
    "with real totals": (lambda c: replace(c, totals={n: v + 0.0 for n, v in c.totals.items()}), [0]),
}


@pytest.mark.parametrize("misfit", MISFITS)
@pytest.mark.parametrize("first", [True, False])
def test_a_message_that_does_not_fit_is_dropped_whole(misfit: str, first: bool) -> None:
    change, boards = MISFITS[misfit]
    for asked in boards:
        bad = change(rows(asked, 5, 12))
        messages = [bad, *parts(asked)] if first else [*parts(asked), bad]

        assert_sums(asked, messages, rejected=7)


@pytest.mark.parametrize("asked", EVERY)
def test_each_hostile_message_leaves_the_sum_of_the_others(asked: int) -> None:
    """A canary at every bound counts; what is wrong with the others is dropped, or is within the bounds."""
    requests = requests_of(asked)
    for name, message in hostile_messages(requests, N_ITEMS, np.random.default_rng(0)):
        with_it, refused = sums_of(asked, [*parts(asked), message])
        alone, alone_refused = sums_of(asked, [message])

        assert refused == alone_refused, name
        honest, _ = sums_of(asked, parts(asked))
        for release, values in honest.items():
            np.testing.assert_array_equal(with_it[release], values + alone[release], err_msg=name)
        if refused:
            assert not any(values.any() for values in alone.values()), name


@pytest.mark.parametrize("asked", [*EVERY, TOTALS_ONLY, QUADRATIC_ONLY])
@settings(max_examples=examples(8, thorough=20), deadline=None)
@given(order=st.permutations(range(N_GOOD + 3)))
def test_the_order_of_messages_does_not_matter(asked: int, order: list[int]) -> None:
    """Eight orders are enough: a sum that leaves out what comes after refused rows is wrong in most of them."""
    bad = a_broken_row(asked)
    messages = [*parts(asked), bad, rows(asked, 3, 3), with_crooked_totals(bad)]
    shuffled = [messages[k] for k in order]

    assert_sums(asked, shuffled, rejected=2)


@pytest.mark.parametrize("asked", [*EVERY, TOTALS_ONLY, QUADRATIC_ONLY])
def test_nobody_at_all_gives_sums_of_nothing(asked: int) -> None:
    for messages, rejected in ([], 0), ([rows(asked, 4, 4)], 0), ([a_broken_row(asked)], 1):
        found, refused = sums_of(asked, messages)

        assert refused == rejected
        for request in requests_of(asked):
            assert found[request.name].shape == (request.release.rows, request.release.width)
            assert not found[request.name].any()
