"""The device's part of top-k lists: what a user gives to each round, and her vector on the last board.

x_j in {0, 1}^m' are a user's items among those that are learnt, k_j their number, z_j = x_j / sqrt(k_j). Rows are
computed one by one (sparse times dense), so that a user's integers do not depend on who is computed with her.
"""

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.errors import PrivacyError
from fedboard.common.per_user.clipping import RESPONSE_BOUND, clip_vectors, quantise_weights
from fedboard.common.tasks.shared.preparation import capped_counts
from fedboard.common.tasks.topk.config import Stage, TopKConfig
from fedboard.common.tasks.topk.releases import ENERGY_UNITS, KERNELS, energies_width

CONSTANT = 0.3
"""beta: last coordinate of a user's vector in the start; it measures how much of the sum is diagonal."""
OWN_SHARE = 0.2
"""gamma: the last coordinate in the directions is gamma / sqrt(k_j), which measures the diagonal item by item."""


def learnt_part(cohort: Cohort, board: Board) -> Cohort:
    """The same users with their learnt items alone."""
    return cohort.where(np.asarray(board.arrays["learnt"])[cohort.items] != 0)


def unit_rows(cohort: Cohort) -> FloatArray:
    """Each entry's z, float64, shape (n_ratings,): squares of a user's sum to 1, or she has none. Private."""
    own: FloatArray = 1.0 / np.sqrt(np.maximum(cohort.counts, 1).astype(np.float64))
    return np.repeat(own, cohort.counts)


def times(cohort: Cohort, entries: FloatArray, matrix: FloatArray) -> FloatArray:
    """Row j: sum of a user's entries times her items' rows of a public matrix; float64, (n_users, width)."""
    public = np.asarray(matrix, dtype=np.float64)
    by_count = np.argsort(-cohort.counts, kind="stable")
    rated, first = cohort.counts[by_count], (cohort.indptr[:-1] - cohort.indptr[0])[by_count]
    sums = np.zeros((cohort.n_users, public.shape[1]))
    for place in range(int(rated[0]) if rated.size else 0):
        # Everybody's entry at this place: users are in the order of how many they have, so its owners come first.
        here = first[: np.searchsorted(-rated, -place)] + place
        sums[: here.size] += entries[here, None] * public[cohort.items[here]]
    found = np.empty_like(sums)
    found[by_count] = sums
    return found


def counted(cohort: Cohort, settings: TopKConfig) -> Contribution:
    """Each user's row of counts, scaled to at most sqrt(count_cap)."""
    return Contribution(
        n_items=cohort.n_items,
        indptr=cohort.indptr,
        items=cohort.items,
        weights=quantise_weights(capped_counts(cohort, settings.shared.count_cap)),
    )


def started(cohort: Cohort, board: Board) -> Contribution:
    """A user's v = (Q^T z, beta), scaled to norm 1; zeros for whoever has fewer than two learnt items."""
    own = learnt_part(cohort, board)
    along = times(own, unit_rows(own), board.arrays["item_factors"])
    vectors = np.column_stack([along, np.full(own.n_users, CONSTANT)])
    return Contribution(
        n_items=own.n_items,
        indptr=np.zeros(own.n_users + 1, dtype=np.int64),
        items=own.items[:0],
        vectors=clip_vectors(_unit(vectors, own), 1.0),
    )


def directed(cohort: Cohort, board: Board, settings: TopKConfig) -> Contribution:
    """A user's z v^T.

    v = ((U S)^T z, gamma / sqrt(k)) scaled to norm sqrt(1 - count_share), or zeros if she has no two items;
    then sqrt(count_share), which counts.
    """
    learnt = np.asarray(board.arrays["learnt"])[cohort.items] != 0
    own, weights = cohort.where(learnt), np.zeros(cohort.n_ratings)
    entries = unit_rows(own)
    weights[learnt] = entries
    last = OWN_SHARE / np.sqrt(np.maximum(own.counts, 1).astype(np.float64))
    vectors = _unit(np.column_stack([times(own, entries, board.arrays["item_factors"]), last]), own)
    share = settings.count_share
    vectors = np.column_stack([np.sqrt(1.0 - share) * vectors, np.sqrt(share) * (own.counts > 0)])
    return Contribution(
        n_items=cohort.n_items,
        indptr=cohort.indptr,
        items=cohort.items,
        weights=quantise_weights(weights),
        responses=np.where(learnt, RESPONSE_BOUND, 0).astype(np.int16),
        vectors=clip_vectors(vectors, 1.0),
    )


def energies(cohort: Cohort, board: Board, settings: TopKConfig) -> Contribution:
    """((E^T z)^2 - (E^2)^T z^2, z^T K_q z off the diagonal), scaled to the bound where it is longer."""
    own, width = learnt_part(cohort, board), settings.width
    entries, factors = unit_rows(own), np.asarray(board.arrays["item_factors"], dtype=np.float64)
    none = np.zeros((KERNELS, 0, 0))
    forms = np.asarray(board.arrays.get("kernel_forms", none), dtype=np.float64)
    along = times(own, entries, factors)
    columns, parts = factors[:, width:], along[:, width:]
    quadratic = [_row_sums(_product(parts, form) * parts) for form in forms]
    squares = np.column_stack(
        [factors[:, :width] ** 2, *(_row_sums((columns @ form) * columns) for form in forms)]
    )
    values = np.column_stack([along[:, :width] ** 2, *quadratic]) - times(own, entries**2, squares)
    values[:, 0] /= 2.0  # popularity has most of it; the server doubles it
    values[own.counts < 2] = 0.0
    values = np.pad(values, ((0, 0), (0, energies_width(settings) - values.shape[1])))
    return Contribution(
        n_items=own.n_items,
        indptr=np.zeros(own.n_users + 1, dtype=np.int64),
        items=own.items[:0],
        totals={str(Stage.ENERGIES): bounded(values, settings.energy_bound)},
    )


def bounded(values: FloatArray, bound: float) -> IntArray:
    """Rows of norm at most ``bound`` on the grid, toward zero: ``ENERGY_UNITS`` grid units stand for the bound.

    Args:
        values: float64, shape (n_users, width). Private.
        bound: > 0. Public.

    Returns:
        int64, of the same shape; squares of a row sum to at most ``ENERGY_UNITS ** 2`` in exact integers.

    Raises:
        PrivacyError: a row is not finite, or longer than its bound on the grid; which one is not said.
    """
    norms = np.sqrt(np.einsum("nd,nd->n", values, values))
    if not np.isfinite(norms).all():
        raise PrivacyError("numbers that leave the device must be finite; NaN or infinity was refused")
    scale = ENERGY_UNITS / np.maximum(norms, bound)
    rows: IntArray = np.trunc(values * scale[:, None]).astype(np.int64)
    if (np.einsum("nd,nd->n", rows, rows) > ENERGY_UNITS**2).any():
        raise PrivacyError("a row of energies exceeds its bound on the grid")
    return rows


def _unit(vectors: FloatArray, own: Cohort) -> FloatArray:
    """Rows of norm 1; zeros for whoever has no pair of items."""
    norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    scaled: FloatArray = vectors * np.where(own.counts > 1, 1.0 / np.maximum(norms, 1e-12), 0.0)[:, None]
    return scaled


def _product(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Row by row, unlike BLAS, whose last bits depend on how many rows there are."""
    found = np.zeros((rows.shape[0], matrix.shape[1]))
    for column, along in zip(rows.T, matrix, strict=True):
        found += column[:, None] * along
    return found


def _row_sums(values: FloatArray) -> FloatArray:
    found: FloatArray = np.einsum("nd->n", values)
    return found
