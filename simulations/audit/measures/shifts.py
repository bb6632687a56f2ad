"""Releases in units of the noise that was booked: what is left without the exact sum, and what each row adds."""

import math

import numpy as np
from scipy.sparse import csr_array

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.events import Event, symmetric_rank


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
    if rows.responses is None:
        raise InputError("these requests need responses, and the contribution has none")
    items = rows.items.reshape(rows.n_users, -1).astype(np.int64)
    responses = rows.responses.reshape(rows.n_users, -1).astype(np.float64)
    first, second = np.triu_indices(items.shape[1])
    before = items[:, first] * rows.n_items - items[:, first] * (items[:, first] - 1) // 2
    places = before + items[:, second] - items[:, first]
    values = responses[:, first] * responses[:, second] / deviations[places]
    bounds = np.arange(rows.n_users + 1) * first.size
    return csr_array((values.ravel(), places.ravel(), bounds), shape=(rows.n_users, request.release.width))


def _rows_of_totals(request: Request, rows: Contribution) -> FloatArray:
    if request.source is SumSource.TOTAL:
        return rows.totals[request.name].astype(np.float64)
    return _packed_squares(_vectors(rows)).astype(np.float64)


def _entry_values(request: Request, rows: Contribution) -> FloatArray:
    """What each entry adds to its item's row: exact, every number is below 2^53."""
    if rows.weights is None:
        raise InputError("these requests need weights, and the contribution has none")
    weights = rows.weights.astype(np.float64)[:, None]
    if request.source is SumSource.ITEM_COUNT:
        return weights
    owners = np.repeat(np.arange(rows.n_users), np.diff(rows.indptr))
    if request.source is SumSource.ITEM_QUADRATIC:
        return weights * _packed_squares(_vectors(rows))[owners]
    if rows.responses is None:
        raise InputError("these requests need responses, and the contribution has none")
    return weights * rows.responses.astype(np.float64)[:, None] * _vectors(rows)[owners]


def _packed_squares(vectors: IntArray) -> IntArray:
    """``v v^T`` as packed upper triangles, row-major."""
    first, second = np.triu_indices(vectors.shape[1])
    squares: IntArray = vectors[:, first] * vectors[:, second]
    assert symmetric_rank(squares.shape[1]) == vectors.shape[1]
    return squares


def _vectors(rows: Contribution) -> IntArray:
    if rows.vectors is None:
        raise InputError("these requests need vectors, and the contribution has none")
    return rows.vectors.astype(np.int64)
