"""Sums over pairs of items against the dense, obvious product.

Rows of many clients below one another are the rows of one client that hosts them all.

Truncated sums against the obvious ones, user by user; and that truncation keeps every bound.

The packed vector: finest shift that has room, residues there and back, and what cannot be honest.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.algorithms.residual.config import Curvature, Start
from fedboard.common.algorithms.residual.releases import spectral_start
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import keeps_l2_bound
from fedboard.common.protocols.sums import residues as coarse
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.sums.residues import Packing, coarse_rows, coarse_sums, truncated
from fedboard.common.protocols.sums.row_bounds import joined, kept_rows, only_rows
from tests.common.algorithms.conftest import (
    N_USERS,
    a_prepared_board,
    a_residual_task,
    a_task,
    population,
    residual_boards,
)
from tests.common.releases import a_release
from tests.thorough import examples

N_ITEMS = 14


def a_request(n_items: int = N_ITEMS) -> Request:
    (request,) = spectral_start(a_residual_task(start=Start.SPECTRAL).settings, n_items=n_items)
    return request


def dense_rows(n_users: int, seed: int = 0, n_items: int = N_ITEMS) -> np.ndarray:
    """Numbers as large as a row can hold, most of them missing; some users have none."""
    rng = np.random.default_rng(seed)
    z = rng.integers(-4096, 4097, (n_users, n_items))
    return z * (rng.random((n_users, n_items)) < rng.choice([0.0, 0.1, 0.5, 1.0], (n_users, 1)))


def contribution_of(z: np.ndarray) -> Contribution:
    users, items = np.nonzero(z)
    indptr = np.zeros(len(z) + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=len(z)), out=indptr[1:])
    return Contribution(
        n_items=z.shape[1],
        indptr=indptr,
        items=items.astype(np.int32),
        responses=z[users, items].astype(np.int16),
    )


def packed(z: np.ndarray) -> np.ndarray:
    return (z.T @ z)[np.triu_indices(z.shape[1])][None, :]


@pytest.mark.parametrize("n_users", [0, 1, 500, 8192, 8193, 20_000])
def test_pair_sums_are_the_dense_product_over_any_number_of_blocks(n_users: int) -> None:
    z = dense_rows(n_users)

    found = whole_sums(FactoredSums.of(contribution_of(z)), [a_request()])["pairs"]

    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, packed(z))


def test_pair_sums_of_the_kept_rows_only() -> None:
    z, keep = dense_rows(300), np.random.default_rng(1).random(300) < 0.7

    sums = FactoredSums.of(contribution_of(z), keep=keep)

    assert sums.rejected_rows == np.count_nonzero(~keep)
    np.testing.assert_array_equal(whole_sums(sums, [a_request()])["pairs"], packed(z[keep]))


def test_pair_sums_without_responses_are_refused() -> None:
    rows = Contribution(n_items=2, indptr=np.array([0, 1]), items=np.array([0], dtype=np.int32))

    with pytest.raises(InputError, match="need responses"):
        whole_sums(FactoredSums.of(rows), [a_request(2)])


TASK, RESIDUAL = a_task(), a_residual_task()
ASKED = [
    (TASK, TASK.first_board(a_prepared_board(TASK).catalogue)),
    (TASK, a_prepared_board(TASK)),
    *((RESIDUAL, board) for board in residual_boards(RESIDUAL)[:-1]),
]


def rows(asked: int, start: int = 0, stop: int = N_USERS) -> Contribution:
    task, board = ASKED[asked]
    return task.contribute(population().rows(start, stop), board, task.requests(board))


def assert_same(ours: Contribution, theirs: Contribution) -> None:
    assert ours.n_items == theirs.n_items
    for name in ("indptr", "items", "weights", "vectors", "responses"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert set(ours.totals) == set(theirs.totals)
    for name, values in ours.totals.items():
        np.testing.assert_array_equal(values, theirs.totals[name])


@pytest.mark.slow
@pytest.mark.parametrize("asked", range(len(ASKED)))
@settings(max_examples=examples(10, thorough=25), deadline=None)
@given(cuts=st.sets(st.integers(0, N_USERS), max_size=6))
def test_joined_parts_are_the_whole(asked: int, cuts: set[int]) -> None:
    """Ten ways to cut are enough: parts in another order are wrong in all but the ways that cut off nothing."""
    bounds = sorted({0, N_USERS, *cuts})
    parts = [rows(asked, start, stop) for start, stop in itertools.pairwise(bounds)]

    assert_same(joined(parts), rows(asked))


def test_parts_without_rows_add_nothing() -> None:
    assert_same(joined([rows(1, 3, 3), rows(1), rows(1, 9, 9)]), rows(1))


@pytest.mark.slow
@pytest.mark.parametrize("asked", range(len(ASKED)))
@settings(max_examples=examples(10, thorough=25), deadline=None)
@given(keep=st.lists(st.booleans(), min_size=N_USERS, max_size=N_USERS).map(np.array))
def test_only_some_rows_are_what_emptied_rows_leave(asked: int, keep: np.ndarray) -> None:
    some, emptied = only_rows(rows(asked), keep), kept_rows(rows(asked), keep)

    assert some.n_users == keep.sum()
    np.testing.assert_array_equal(some.items, emptied.items)
    np.testing.assert_array_equal(np.diff(some.indptr), np.diff(emptied.indptr)[keep])
    if some.weights is not None and emptied.weights is not None:
        np.testing.assert_array_equal(some.weights, emptied.weights)
    if some.vectors is not None and emptied.vectors is not None:
        np.testing.assert_array_equal(some.vectors, emptied.vectors[keep])
    for name, values in some.totals.items():
        np.testing.assert_array_equal(values, emptied.totals[name][keep])


TRUNCATED_TASK = a_residual_task(start=Start.SPECTRAL, clip_quantile=0.5, curvature=Curvature.RELEASED)
BOARDS = residual_boards(TRUNCATED_TASK)
EVERY_SOURCE = {r.source for board in BOARDS for r in TRUNCATED_TASK.requests(board)}


def rows_of(board: Board, seed: int = 0) -> tuple[Contribution, tuple[Request, ...]]:
    requests = TRUNCATED_TASK.requests(board)
    return TRUNCATED_TASK.contribute(population(seed), board, requests), requests


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


def a_packed_request(
    name: str = "sums",
    source: SumSource = SumSource.TOTAL,
    *,
    rows: int = 1,
    width: int = 3,
    l2_bound: int = 1 << 24,
) -> Request:
    release = a_release(name=name, rows=rows, width=width, l2_bound=l2_bound)
    return Request(source=source, release=release)


@given(
    users=st.integers(1, 1 << 20), l2_bound=st.integers(64, 1 << 40), noise=st.sampled_from([0.0, 1.0, 50.0])
)
@settings(max_examples=100, deadline=None)
def test_the_shift_is_the_smallest_that_has_room_for_everybody(
    users: int, l2_bound: int, noise: float
) -> None:
    request, stddev = a_packed_request(l2_bound=l2_bound), noise * l2_bound

    shift = Packing.of([request], most_users=users, noise_stddevs={"sums": stddev}).shifts["sums"]

    def needed(shift: int) -> float:
        return users * (l2_bound >> shift) + 12 * stddev / 2**shift

    assert needed(shift) < 2**31
    assert shift == 0 or needed(shift - 1) >= 2**31


def test_a_fine_packing_that_cannot_hold_the_sums_is_refused() -> None:
    request = a_packed_request(l2_bound=1 << 24)

    assert Packing.of([request], most_users=1 << 24).shifts["sums"] == 18
    with pytest.raises(InputError, match="at least 64 are needed"):
        Packing.of([request], most_users=1 << 26)
    with pytest.raises(InputError, match="most_users must be at least 1"):
        Packing.of([request], most_users=0)
    assert Packing.of([a_packed_request(l2_bound=1)], most_users=1 << 20).shifts["sums"] == 0, (
        "one unit is all there is"
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_residues_of_many_parts_add_up_to_the_sums(seed: int, n: int) -> None:
    requests = (
        a_packed_request("a", rows=4, width=2, l2_bound=1 << 12),
        a_packed_request("b", l2_bound=1 << 35),
    )
    packing = Packing.of(requests, most_users=50)
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(n):
        most = {r.name: r.release.l2_bound >> packing.shifts[r.name] for r in requests}
        shapes = {r.name: (r.release.rows, r.release.width) for r in requests}
        largest = {name: most[name] // 3 for name in most}  # eight numbers: norm within the bound
        parts.append({name: rng.integers(-largest[name], largest[name] + 1, shapes[name]) for name in most})

    residues = np.zeros(packing.size, dtype=np.uint32)
    for part in parts:
        residues += packing.flatten(part)
    found = packing.unflatten(residues)

    for name in ("a", "b"):
        expected = sum(part[name] for part in parts) << packing.shifts[name]
        np.testing.assert_array_equal(found[name], expected)
    assert packing.plausible(found, n_users=n)


def test_a_sum_beyond_what_honest_users_can_reach_is_not_plausible() -> None:
    packing = Packing.of([a_packed_request(l2_bound=100)], most_users=1000)
    most = {"sums": np.array([[0, -600, 800]])}
    above = {"sums": np.array([[0, -601, 800]])}

    assert packing.plausible(most, n_users=10)
    assert not packing.plausible(above, n_users=10)
    assert packing.plausible(above, n_users=11)
    assert packing.plausible(above, n_users=10, noise_stddevs={"sums": 1.0})


def test_what_is_no_vector_of_the_packing_is_refused() -> None:
    packing = Packing.of([a_packed_request()], most_users=10)

    with pytest.raises(InputError, match="must be uint32"):
        packing.unflatten(np.zeros(4, dtype=np.uint32))
    with pytest.raises(InputError, match="must be uint32"):
        packing.unflatten(np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match="another shape"):
        packing.flatten({"sums": np.zeros((3, 1), dtype=np.int64)})


def test_matrices_whose_sensitivity_relies_on_their_signs_are_not_coarsened() -> None:
    request = a_packed_request(source=SumSource.QUADRATIC)
    relying = replace(request.release, same_sign=True, adjacency=Adjacency.REPLACE)
    matrix = replace(request, release=relying)

    with pytest.raises(PrivacyError, match="positive semi-definite"):
        Packing.of([matrix], most_users=1 << 10)
    assert Packing.of([matrix], most_users=1 << 6).shifts["sums"] == 0
    numbers = replace(matrix, source=SumSource.TOTAL)
    assert Packing.of([numbers], most_users=1 << 10).shifts["sums"] == 4, "truncated numbers keep their sign"
    dearer = replace(matrix, release=replace(relying, same_sign=False))
    assert Packing.of([dearer], most_users=1 << 10).shifts["sums"] == 4
