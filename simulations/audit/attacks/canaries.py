"""Canary rows: hostile but valid contributions, at the bound of every release of a round at once."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from fedboard.common.arrays import FloatArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.per_user.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.events import symmetric_rank
from fedboard.simulations.audit.entrance import random_supports

_ITEMS_EACH = 4
"""A power of four, so that equal weights 1 / sqrt k lie on the grid and reach the bound exactly."""
_DETECTABLE, _POWER = 0.25, 0.999
_FEWEST, _MOST = 2_000, 40_000
_INTERFERENCE = 4.0
_WITH_RESPONSES = {SumSource.ITEM_LINEAR, SumSource.ITEM_PAIRS}


def canary_rows(
    requests: Sequence[Request], n_canaries: int, *, n_items: int, rng: np.random.Generator
) -> Contribution:
    """Rows with random supports and random directions whose norm is each release's bound, all bounds at once.

    With V, W and R the norms of vector, weights and the size of a response, a row gives W to ``item-count``,
    W V^2 to ``item-quadratic``, W R V to ``item-linear``, V^2 to ``quadratic``, and with k items
    k R^2 to ``item-pairs``; the largest within every stated ``l2_bound`` are taken, on the grid toward zero.

    Args:
        requests: what the round asks. Public.
        n_canaries: number of rows; >= 1.
        n_items: size of the catalogue.
        rng: draws supports and directions.

    Returns:
        Rows that ``rows_within_bounds`` accepts.
    """
    sources = {request.source for request in requests}
    per_item = any(source.per_item for source in sources)
    size = min(_ITEMS_EACH, n_items) if per_item or SumSource.ITEM_PAIRS in sources else 0
    vector_norm, weight_norm, response = _norms(requests, size)
    items = random_supports(n_canaries, size, n_items, rng)
    signs = rng.choice(np.array([-1, 1], dtype=np.int16), items.size)
    rank = _rank(requests)
    return Contribution(
        n_items=n_items,
        indptr=np.arange(n_canaries + 1, dtype=np.int64) * size,
        items=items.ravel(),
        weights=np.full(items.size, math.floor(weight_norm / math.sqrt(max(size, 1))), np.int16)
        if per_item
        else None,
        vectors=None if rank is None else _directions(n_canaries, rank, vector_norm, rng),
        responses=signs * np.int16(response) if sources & _WITH_RESPONSES else None,
        totals={r.name: _total_rows(r, n_canaries, rng) for r in requests if r.source is SumSource.TOTAL},
    )


def enough_canaries(epsilon: float, delta: float, *, n_items: int, confidence: float = 0.95) -> int:
    """How many canaries show noise that is 20 % too small with probability 0.999.

    Then mu is really 1.25 mu; the estimate deviates by sqrt(4/n + mu^2 / 2n). Beyond about ``4 n_items / mu^2``
    canaries blur each other by more than they add.

    Returns:
        Between 2,000 and 40,000, or fewer where the catalogue is small.
    """
    mu = mu_for(epsilon, delta)
    quantiles = (float(ndtri(confidence)) + float(ndtri(_POWER))) / _DETECTABLE
    wanted = quantiles**2 * (4.0 / mu**2 + (1.0 + _DETECTABLE) ** 2 / 2.0)
    room = _INTERFERENCE * n_items / mu**2
    return int(min(max(wanted, _FEWEST), _MOST, max(room, 10.0)))


def _norms(requests: Sequence[Request], n_items_each: int) -> tuple[int, int, int]:
    """The largest norms of vector, weights and one response that keep every bound, grid units."""
    bound = {request.source: request.release.l2_bound for request in requests}
    vector = min(VECTOR_BOUND, math.isqrt(bound.get(SumSource.QUADRATIC, VECTOR_BOUND**2)))
    weight = min(
        WEIGHT_ONE,
        bound.get(SumSource.ITEM_COUNT, WEIGHT_ONE),
        bound.get(SumSource.ITEM_QUADRATIC, WEIGHT_ONE * vector**2) // vector**2,
    )
    largest = RESPONSE_BOUND
    if SumSource.ITEM_LINEAR in bound:
        largest = min(largest, bound[SumSource.ITEM_LINEAR] // (weight * vector))
    if SumSource.ITEM_PAIRS in bound:
        largest = min(largest, math.isqrt(bound[SumSource.ITEM_PAIRS] // n_items_each))
    return vector, weight, largest


def _rank(requests: Sequence[Request]) -> int | None:
    """Length of a user's vector, or None where no request needs one."""
    for request in requests:
        if request.source is SumSource.ITEM_LINEAR:
            return request.release.width
        if request.source in (SumSource.ITEM_QUADRATIC, SumSource.QUADRATIC):
            return symmetric_rank(request.release.width)
    return None


def _directions(n_rows: int, rank: int, norm: int, rng: np.random.Generator) -> ShortArray:
    return np.trunc(norm * _unit_rows(rng.standard_normal((n_rows, rank)))).astype(np.int16)


def _total_rows(request: Request, n_rows: int, rng: np.random.Generator) -> IntArray:
    """A random direction at the bound; without negative numbers where the release relies on that."""
    drawn = rng.standard_normal((n_rows, request.release.width))
    if request.release.same_sign:
        drawn = np.abs(drawn)
    bound = request.release.l2_bound
    if request.release.width == 1:
        return bound * np.sign(drawn).astype(np.int64)
    return np.trunc((bound - 1) * _unit_rows(drawn)).astype(np.int64)  # rounding cannot pass the bound


def _unit_rows(values: FloatArray) -> FloatArray:
    return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True), dtype=np.float64)
