"""Canaries: accepted by the aggregator's own check, and at the bound of every release."""

from functools import cache

import numpy as np
import pytest

from fedboard.common.contribution import Request, SumSource
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.protocols.trusted import rows_within_bounds
from fedboard.simulations.audit.canaries import canary_rows, diagonal_places, shifts
from fedboard.simulations.audit.entrance import random_supports
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.conftest import KINDS, N_ITEMS, audited, rounds_of

N_CANARIES = 40


@cache
def rounds(kind: str, pool: WorkerPool) -> list[tuple[Request, ...]]:
    """What a run of this kind asks, round by round."""
    subject, entrance = audited(kind)
    return [played.requests for played in rounds_of(subject, entrance, pool)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_canaries_are_valid_and_reach_every_bound(kind: str, pool: WorkerPool) -> None:
    for requests in rounds(kind, pool):
        rows = canary_rows(requests, N_CANARIES, n_items=N_ITEMS, rng=np.random.default_rng(0))

        assert rows_within_bounds(rows, requests).all()
        for request in requests:
            moved = shifts(request, rows, np.ones(request.release.width)).toarray()
            squares = moved.reshape(N_CANARIES, -1, request.release.width) ** 2
            if request.release.layout == "symmetric":
                off_diagonal = np.ones(request.release.width, dtype=bool)
                off_diagonal[diagonal_places(request.release.width)] = False
                squares[..., off_diagonal] *= 2
            norms = np.sqrt(squares.sum(axis=(1, 2)))
            assert norms.max() <= request.release.l2_bound * (1 + 1e-12)
            assert norms.min() >= 0.995 * request.release.l2_bound


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_canary_moves_is_what_the_kernels_sum_to_the_last_bit(kind: str, pool: WorkerPool) -> None:
    for requests in rounds(kind, pool):
        rows = canary_rows(requests, N_CANARIES, n_items=N_ITEMS, rng=np.random.default_rng(1))
        sums = whole_sums(FactoredSums.of(rows), requests)

        for request in requests:
            moved = shifts(request, rows, np.ones(request.release.width))
            total = np.asarray(moved.sum(axis=0)).reshape(request.release.rows, request.release.width)
            np.testing.assert_array_equal(total, sums[request.name])


@pytest.mark.slow
def test_all_sources_are_covered(pool: WorkerPool) -> None:
    seen = {request.source for kind in KINDS for requests in rounds(kind, pool) for request in requests}

    assert seen == set(SumSource)


@pytest.mark.parametrize(("size", "n_items"), [(4, 4), (4, 100), (1, 3), (0, 5)])
def test_supports_are_sets_and_each_item_is_as_likely(size: int, n_items: int) -> None:
    supports = random_supports(3000, size, n_items, np.random.default_rng(0))

    assert supports.shape == (3000, size)
    assert (np.diff(supports, axis=1) > 0).all()
    if size:
        counts = np.bincount(supports.ravel(), minlength=n_items)
        assert np.ptp(counts) <= 8 * np.sqrt(counts.mean())
