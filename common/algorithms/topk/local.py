"""The device's part of top-k lists: what a user gives to each round, and her vector on the last board.

x_j in {0, 1}^m' are a user's items among those that are learnt, k_j their number, z_j = x_j / sqrt(k_j). Rows are
computed one by one (sparse times dense), so that a user's integers do not depend on who is computed with her.

From directions, energies and kernels to what a device scores by: item-based regression on denoised moments.

The items' second moments are taken to be

    C = E diag(e) E^T + sum_q tau_q K_q  off the diagonal,  max(n p, .) + lambda  on it

and with P = C^-1 a person's score of item i is the regression of x_i on her other items, sum_l x_l (-P_il / P_ii).
C is low rank plus diagonal, so P off the diagonal is -G G^T with G of the same width, and
``<G_i, sum_l G_l> / P_ii`` is all that a device computes.

Reference: Steck (2019), Embarrassingly shallow autoencoders (P and its diagonal); Haseman and Elston (1972) (tau).
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.algorithms.shared.preparation import answer, capped_counts
from fedboard.common.algorithms.topk.basis import Directions
from fedboard.common.algorithms.topk.config import ENERGY_UNITS, KERNELS, Stage, TopKConfig, energies_width
from fedboard.common.algorithms.topk.kernels import Kernels, diagonals, inner_products
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.contribution_bounding.clipping import RESPONSE_BOUND, clip_vectors, quantise_weights
from fedboard.common.errors import PrivacyError

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
    return answer(
        cohort,
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
    return answer(
        cohort,
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


_SPREAD, _LEAST_SPREAD = 0.3, 0.5
"""What an energy is believed to be from its singular value: within 30 % of it, and half a user."""
_RIDGE = 0.02
_OWN = 1.02
"""The diagonal of what is of low rank is exceeded at least by so much."""
_LEAST_OWN = 0.1
"""Share of an item's diagonal that is its own at least: C is positive definite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What lists are made of. Public."""

    factors: FloatArray
    """G: float64, shape (m', width)."""
    scale: FloatArray
    """1 / P_ii > 0: float64, shape (m',)."""


def scores_of(
    directions: Directions,
    kernels: Kernels | None,
    released: FloatArray,
    own: FloatArray,
    *,
    stddev: float,
    diagonal: float,
) -> Scores:
    """G and the diagonal of P.

    Args:
        directions: E with what is believed of it.
        kernels: of norm 1 off the diagonal, or None.
        released: energies along directions, then kernels; float64, shape (n + KERNELS,) or longer than n.
        own: n p, how much of the second moments is each item's own; float64, shape (m',).
        stddev: noise deviation of each energy, > 0.
        diagonal: lambda > 0.
    """
    number = directions.values.size
    strength = _believed(released[:number], directions.values, stddev) * directions.agreement
    parts = [directions.axes * np.sqrt(strength)]
    low_rank = np.sum(parts[0] ** 2, axis=1)
    if kernels is not None:
        parts.append(_kernel_part(kernels, released[number:], directions.axes, strength))
    factors = np.hstack(parts)
    wanted = np.maximum(own, _OWN * low_rank) + diagonal
    left = np.maximum(wanted - np.sum(factors**2, axis=1), _LEAST_OWN * wanted)
    inner = np.eye(factors.shape[1]) + factors.T @ (factors / left[:, None])
    found = np.linalg.solve(np.linalg.cholesky(inner), (factors / left[:, None]).T).T
    precision = 1.0 / left - np.sum(found**2, axis=1)  # > 0: the diagonal of an inverse
    return Scores(factors=found, scale=1.0 / np.maximum(precision, 1e-12))


def _believed(noisy: FloatArray, values: FloatArray, stddev: float) -> FloatArray:
    """Energies, pulled to what the singular values say as far as their noise demands."""
    least = np.maximum(noisy, 0.0)
    expected = float(least @ values) / max(float(values @ values), 1e-300) * values
    spread = (_SPREAD * expected + _LEAST_SPREAD) ** 2
    pulled: FloatArray = (least * spread + expected * stddev**2) / (spread + stddev**2)
    return pulled


def _kernel_part(kernels: Kernels, noisy: FloatArray, axes: FloatArray, strength: FloatArray) -> FloatArray:
    """A square root of sum tau_q K_q, tau by non-negative regression of what the directions do not explain."""
    from scipy.optimize import nnls

    along = kernels.columns.T @ axes
    explained = np.array([float(np.sum((form @ along) * along * strength)) for form in kernels.forms])
    explained -= diagonals(kernels) @ (axes**2 @ strength)
    ridge = _RIDGE * np.eye(noisy.size)
    tau, _ = nnls(inner_products(kernels) + ridge, noisy - explained)
    values, vectors = np.linalg.eigh(np.tensordot(tau, kernels.forms, axes=1))
    root: FloatArray = kernels.columns @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return root
