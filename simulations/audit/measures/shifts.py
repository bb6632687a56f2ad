"""How far each row of a contribution moves a release: one sparse vector a row, in units of the noise."""

import numpy as np
from scipy.sparse import csr_array

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import InputError
from fedboard.common.privacy.events import symmetric_rank


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
