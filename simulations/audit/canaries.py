"""Canary rows: hostile but valid contributions, at the bound of every release of a round at once.

Releases in units of the noise that was booked: what is left without the exact sum, and what each row adds.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from fedboard.common.arrays import FloatArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import RESPONSE_BOUND, VECTOR_BOUND, WEIGHT_ONE
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.events import Event, symmetric_rank
from fedboard.simulations.audit.entrance import random_supports
from fedboard.simulations.audit.statistics import CONFIDENCE


def diagonal_places(width: int) -> IntArray:
    """Where the diagonal lies in a packed upper triangle of ``width`` numbers, row-major; int64, shape (d,).

    Raises:
        PrivacyError: ``width`` is not d (d + 1) / 2.
    """
    rank = symmetric_rank(width)
    if rank is None:
        raise PrivacyError(f"a packed symmetric matrix has d (d + 1) / 2 numbers, not {width}")
    rows = np.arange(rank, dtype=np.int64)
    places: IntArray = rows * rank - rows * (rows - 1) // 2
    return places


def isometric_square(request: Request, change: IntArray) -> int:
    """Squared norm of a change in isometric coordinates, exact: a Python integer, grid units."""
    numbers = change.reshape(-1, request.release.width)
    places = np.nonzero(numbers)
    weights = np.ones(places[1].size, dtype=np.int64)
    if request.release.layout == "symmetric":
        weights[~np.isin(places[1], diagonal_places(request.release.width))] = 2
    pairs = zip(numbers[places].tolist(), weights.tolist(), strict=True)
    return sum(weight * number * number for number, weight in pairs)


def booked_deviations(event: Event) -> FloatArray:
    """Noise deviation of each column that an event promises, grid units, float64, shape (width,).

    Read off the event alone, not off the object that draws, so that a draw that differs shows. Symmetric
    matrices: s on the diagonal, s / sqrt 2 off it; dividing a packed upper triangle by these gives coordinates
    in which the noise is standard normal and distances are those of the isometric coordinates, in units of s.
    """
    width, deviation = int(event["width"]), float(event["noise_stddev"])
    if event["layout"] != "symmetric":
        return np.full(width, deviation)
    deviations = np.full(width, deviation / math.sqrt(2.0))
    deviations[diagonal_places(width)] = deviation
    return deviations


def unit_noise(event: Event, released: FloatArray, exact: IntArray) -> FloatArray:
    """The noise of a release in units of what was booked: standard normal where all is well.

    ``(released / grid_step - exact) / deviation``. The low bits that publishing drops are put at their middle,
    2^-21 deviations.

    Args:
        event: what was booked. Public.
        released: float64, shape (rows, width), real units. Public.
        exact: int64, same shape, the sum without noise, grid units. Private.
    """
    dropped = (math.ldexp(1.0, int(event["release_shift"])) - 1.0) / 2.0
    noise = released / float(event["grid_step"]) - exact + dropped
    return np.asarray(noise / booked_deviations(event), dtype=np.float64)


def shifts(request: Request, rows: Contribution, deviations: FloatArray) -> csr_array:
    """What each row adds to a release, number by number, divided by the noise deviation of that number.

    Written out from the definition of ``SumSource``, apart from the kernels that sum: a test holds the two against
    each other to the last bit.

    Args:
        request: which release.
        rows: n_rows contributions.
        deviations: float64, shape (width,), grid units, from ``booked_deviations``.

    Returns:
        float64, shape (n_rows, release.rows * width); the norm of a row is its part of mu.
    """
    width = request.release.width
    if request.source is SumSource.ITEM_PAIRS:
        return _pair_shifts(request, rows, deviations)
    if not request.source.per_item:
        values = _rows_of_totals(request, rows) / deviations
        return csr_array(values)
    values = _entry_values(request, rows) / deviations
    columns = rows.items.astype(np.int64)[:, None] * width + np.arange(width)
    shape = (rows.n_users, request.release.rows * width)
    return csr_array((values.ravel(), columns.ravel(), rows.indptr * width), shape=shape)


def _pair_shifts(request: Request, rows: Contribution, deviations: FloatArray) -> csr_array:
    """``r r^T`` of rows with equally many items, packed; only pairs of a row's own items are not zero."""
    items = rows.items.reshape(rows.n_users, -1).astype(np.int64)
    responses = _of(rows, "responses").reshape(rows.n_users, -1).astype(np.float64)
    first, second = np.triu_indices(items.shape[1])
    before = items[:, first] * rows.n_items - items[:, first] * (items[:, first] - 1) // 2
    places = before + items[:, second] - items[:, first]
    values = responses[:, first] * responses[:, second] / deviations[places]
    bounds = np.arange(rows.n_users + 1) * first.size
    return csr_array((values.ravel(), places.ravel(), bounds), shape=(rows.n_users, request.release.width))


def _rows_of_totals(request: Request, rows: Contribution) -> FloatArray:
    if request.source is SumSource.TOTAL:
        return rows.totals[request.name].astype(np.float64)
    return _packed_squares(_of(rows, "vectors")).astype(np.float64)


def _entry_values(request: Request, rows: Contribution) -> FloatArray:
    """What each entry adds to its item's row: exact, every number is below 2^53."""
    weights = _of(rows, "weights").astype(np.float64)[:, None]
    if request.source is SumSource.ITEM_COUNT:
        return weights
    owners = np.repeat(np.arange(rows.n_users), np.diff(rows.indptr))
    if request.source is SumSource.ITEM_QUADRATIC:
        return weights * _packed_squares(_of(rows, "vectors"))[owners]
    return weights * _of(rows, "responses").astype(np.float64)[:, None] * _of(rows, "vectors")[owners]


def _packed_squares(vectors: IntArray) -> IntArray:
    """``v v^T`` as packed upper triangles, row-major."""
    first, second = np.triu_indices(vectors.shape[1])
    squares: IntArray = vectors[:, first] * vectors[:, second]
    assert symmetric_rank(squares.shape[1]) == vectors.shape[1]
    return squares


def _of(rows: Contribution, name: str) -> IntArray:
    """One of the arrays of a contribution, int64."""
    found: ShortArray | None = getattr(rows, name)
    if found is None:
        raise InputError(f"these requests need {name}, and the contribution has none")
    return found.astype(np.int64)


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


def enough_canaries(epsilon: float, delta: float, *, n_items: int) -> int:
    """How many canaries show noise that is 20 % too small with probability 0.999.

    Then mu is really 1.25 mu; the estimate deviates by sqrt(4/n + mu^2 / 2n). Beyond about ``4 n_items / mu^2``
    canaries blur each other by more than they add.

    Returns:
        Between 2,000 and 40,000, or fewer where the catalogue is small.
    """
    mu = mu_for(epsilon, delta)
    quantiles = (float(ndtri(CONFIDENCE)) + float(ndtri(_POWER))) / _DETECTABLE
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
