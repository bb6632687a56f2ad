"""Truncated sums against the obvious ones, user by user; and that truncation keeps every bound."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.booking import keeps_l2_bound
from fedboard.common.protocols.sums import truncated as coarse
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.truncated import coarse_rows, coarse_sums, truncated
from fedboard.common.tasks.residual.config import Curvature, Start
from tests.common.tasks.conftest import N_USERS, a_residual_task, population, residual_boards

TASK = a_residual_task(start=Start.SPECTRAL, clip_quantile=0.5, curvature=Curvature.RELEASED)
BOARDS = residual_boards(TASK)
EVERY_SOURCE = {r.source for board in BOARDS for r in TASK.requests(board)}


def rows_of(board: Board, seed: int = 0) -> tuple[Contribution, tuple[Request, ...]]:
    requests = TASK.requests(board)
    return TASK.contribute(population(seed), board, requests), requests


def of_user(rows: Contribution, user: int) -> Contribution:
    part = slice(rows.indptr[user], rows.indptr[user + 1])
    return replace(
        rows,
        indptr=np.array([0, part.stop - part.start]),
        items=rows.items[part],
        weights=None if rows.weights is None else rows.weights[part],
        responses=None if rows.responses is None else rows.responses[part],
        vectors=None if rows.vectors is None else rows.vectors[user : user + 1],
        totals={name: values[user : user + 1] for name, values in rows.totals.items()},
    )


def obvious(
    rows: Contribution, requests: tuple[Request, ...], shifts: dict[str, int]
) -> dict[str, np.ndarray]:
    """Each user's exact sums, divided in whole numbers, toward zero."""
    users = [whole_sums(FactoredSums.of(of_user(rows, user)), requests) for user in range(rows.n_users)]
    return {
        r.name: sum(np.sign(own[r.name]) * (np.abs(own[r.name]) // 2 ** shifts[r.name]) for own in users)
        for r in requests
    }


def test_the_boards_ask_for_every_kind_of_sum() -> None:
    assert set(SumSource) == EVERY_SOURCE


@pytest.mark.slow
@given(
    board=st.sampled_from(BOARDS),
    seed=st.integers(0, 50),
    shift=st.integers(0, 26),
    block=st.integers(1, 200),
)
@settings(max_examples=25, deadline=None)
def test_coarse_sums_are_the_obvious_ones_in_blocks_of_any_size(
    board: Board, seed: int, shift: int, block: int
) -> None:
    rows, requests = rows_of(board, seed)
    shifts = {r.name: shift for r in requests}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coarse, "_NUMBERS_PER_BLOCK", block)
        found = coarse_sums(rows, requests, shifts)

    for name, expected in obvious(rows, requests, shifts).items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: f"version {board.version}")
def test_without_shifts_both_ways_are_the_trusted_sums_to_the_last_bit(board: Board) -> None:
    rows, requests = rows_of(board)
    exact = whole_sums(FactoredSums.of(rows), requests)

    summed = coarse_sums(rows, requests, {})
    products = coarse_rows(rows, requests, {})

    for request in requests:
        np.testing.assert_array_equal(summed[request.name], exact[request.name])
        truncated_sum = coarse._truncated_sum(rows, request, 0)
        np.testing.assert_array_equal(truncated_sum, exact[request.name])
        assert truncated_sum.dtype == summed[request.name].dtype == np.int64
        if not request.source.per_item:
            np.testing.assert_array_equal(products.totals[request.name].sum(axis=0), exact[request.name][0])


@pytest.mark.parametrize("shift", [0, 9])
@pytest.mark.parametrize("board", BOARDS, ids=lambda board: f"version {board.version}")
def test_rows_add_up_to_the_sums(board: Board, shift: int) -> None:
    rows, requests = rows_of(board)
    shifts = {r.name: shift for r in requests}
    sums = coarse_sums(rows, requests, shifts)

    found = coarse_rows(rows, requests, shifts)

    per_item = [r for r in requests if r.source.per_item]
    assert found.entries.shape[1] == sum(r.release.width for r in per_item)
    if per_item:
        total = np.zeros((rows.n_items, found.entries.shape[1]), dtype=np.int64)
        np.add.at(total, rows.items, found.entries)
        np.testing.assert_array_equal(total, np.hstack([sums[r.name] for r in per_item]))
    assert set(found.totals) == {r.name for r in requests if not r.source.per_item}
    for name, values in found.totals.items():
        assert values.shape[0] == N_USERS
        np.testing.assert_array_equal(values.sum(axis=0)[np.newaxis], sums[name])


@given(value=st.integers(-(2**62), 2**62), shift=st.integers(0, 40))
def test_truncation_goes_toward_zero(value: int, shift: int) -> None:
    assert int(truncated(np.array([value]), shift)[0]) == int(Fraction(value, 2**shift))


def test_truncated_rows_keep_their_bound_where_rounded_ones_need_not() -> None:
    rng = np.random.default_rng(0)
    rows, shift = rng.integers(-300, 301, (500, 40)), 8
    bound = int(np.sqrt((rows**2).sum(axis=1)).max()) + 1

    assert keeps_l2_bound(truncated(rows, shift) << shift, bound).all()
    assert not keeps_l2_bound(np.rint(rows / 2**shift).astype(np.int64) << shift, bound).all()


def test_a_packing_of_the_round_carries_the_sums_of_all_clients() -> None:
    rows, requests = rows_of(BOARDS[-2])
    packing = Packing.of(requests, most_users=N_USERS)
    assert any(packing.shifts.values())

    residues = np.zeros(packing.size, dtype=np.uint32)
    for user in range(N_USERS):
        residues += packing.flatten(coarse_sums(of_user(rows, user), requests, packing.shifts))

    whole = coarse_sums(rows, requests, packing.shifts)
    for name, sums in packing.unflatten(residues).items():
        np.testing.assert_array_equal(sums, whole[name] << packing.shifts[name])


def test_a_row_that_breaks_its_bound_is_not_summed() -> None:
    rows, requests = rows_of(BOARDS[-2])
    vectors = rows.vectors.copy()
    vectors[3] = 4096

    with pytest.raises(PrivacyError, match="nothing was sent"):
        coarse_sums(replace(rows, vectors=vectors), requests, {})
    with pytest.raises(PrivacyError, match="nothing was sent"):
        coarse_rows(replace(rows, vectors=vectors), requests, {})
    with pytest.raises(InputError, match="does not have the arrays"):
        coarse_sums(replace(rows, weights=None), requests, {})


def test_a_matrix_that_relies_on_its_signs_is_not_truncated_on_the_client_either() -> None:
    rows, requests = rows_of(BOARDS[-2])
    relying = tuple(replace(r, release=replace(r.release, adjacency=Adjacency.REPLACE)) for r in requests)
    moment = next(r.name for r in requests if r.source is SumSource.QUADRATIC)

    coarse_sums(rows, relying, {})
    with pytest.raises(PrivacyError, match="positive semi-definite"):
        coarse_sums(rows, relying, {moment: 1})
