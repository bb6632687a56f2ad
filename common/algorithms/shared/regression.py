"""Rated rows and their Gram matrix, and a person's own model as a ridge regression on them.

Explanations are made of that model. Of a large catalogue a device, or a block of users, needs few rows.

Beside what a board predicts, a person has a taste of her own in genres and years: a rating is

    y_i = board_i + (what her own model of the task adds) + <phi_i, h> + noise

with phi_i made here from the catalogue's features. h is solved on her device from her own ratings and never
leaves it, so it costs no privacy. phi_i has a part for the labels, one for the numbers, and one for labels in a
neighbourhood of numbers (comedies of the fifties), each of a fixed length, so that the same ridges fit any
table and any scale of ratings; and two coordinates of what the board says of an item. ``kernels.solve_own_models``
finds h.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.item_features import CatalogueFeatures


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A person's ridge regression. ``vectors`` and ``base`` are public, the rest private."""

    vectors: FloatArray
    """z: float64, shape (n_items, width)."""
    base: FloatArray
    """What the board alone predicts: float64, shape (n_items,)."""
    ridge: float
    """Lambda, one for all coordinates."""
    gram: FloatArray | float
    """G: float64, shape (width, width), or 0."""
    scale: FloatArray | None = None
    """None for a fit. Otherwise float64, shape (n_items,): nothing is fitted, ratings add up as they are, and
    item i gets ``scale_i <z_i, z_k>`` of rating k; ridge and G are then not used."""

    def pulls(self, rated: IndexArray, items: IndexArray) -> FloatArray:
        """What one unit of each own rating, beyond the base, adds to predictions.

        Args:
            rated: numbers of the items that she rated, shape (n_own,). Private.
            items: numbers of the items that are predicted, shape (n,).

        Returns:
            float64, shape (n, n_own). Private.
        """
        own, wanted = self.vectors[rated], self.vectors[items]
        if self.scale is not None:
            return self.scale[items, None] * (wanted @ own.T)
        system = own.T @ own + self.ridge * np.eye(own.shape[1]) + self.gram
        return np.linalg.solve(system, wanted.T).T @ own.T


_ROWS_AT_ONCE = 1 << 17


def gram_of(factors: Float32Array) -> FloatArray:
    """U^T U in float64, shape (rank, rank); of a large catalogue in blocks, so that U is not copied whole.

    Args:
        factors: U, float32, shape (n_items, rank).
    """
    blocks = (factors[start : start + _ROWS_AT_ONCE] for start in range(0, len(factors), _ROWS_AT_ONCE))
    total: FloatArray = np.zeros((factors.shape[1], factors.shape[1]))
    for block in blocks:
        total += block.T.astype(np.float64) @ block
    return total


_FEW = 8
"""Rows are gathered where there are at least so many times more items than ratings; else sorting costs more."""


def rated_rows(items: IndexArray, n_items: int) -> tuple[IndexArray | slice, IndexArray]:
    """Rows to take of an array over all items, and where each rating's item is among them.

    ``array[rows][places]`` is ``array[items]``, number for number.

    Args:
        items: int32, shape (n_ratings,), item numbers. Private.
        n_items: size of the catalogue.

    Returns:
        Item numbers, ascending, or ``slice(None)`` where taking all costs less; int32, shape (n_ratings,). Private.
    """
    if _FEW * items.size >= n_items:
        return slice(None), items
    rows, places = np.unique(items, return_inverse=True)
    return rows, places.astype(np.int32)


def user_ridges(cohort: Cohort, strength: float, exponent: float) -> Float32Array:
    """``strength n_j^exponent`` of each user with n_j ratings; float32, shape (n_users,). Private."""
    own = np.maximum(cohort.counts, 1).astype(np.float64)
    return (strength * own**exponent).astype(np.float32)


def fit_vectors(
    cohort: Cohort,
    labels: Float32Array,
    factors: Float32Array,
    *,
    ridge: Float32Array,
    unobserved_weight: float,
    backend: str,
) -> Float32Array:
    """``argmin_v sum_i (<u_i, v> - y_ij)^2 + ridge_j |v|^2 + unobserved_weight sum_all <u_i, v>^2`` of each user.

    Args:
        cohort: the users. Private.
        labels: y, float32, shape (n_ratings,). Private.
        factors: u, float32, shape (n_items, rank). Public.
        ridge: float32, shape (n_users,), > 0.
        unobserved_weight: >= 0.
        backend: which kernels compute.

    Returns:
        float32, shape (n_users, rank). Private, unclipped.
    """
    u = np.ascontiguousarray(factors, dtype=np.float32)
    gram = unobserved_weight * gram_of(u) if unobserved_weight > 0 else None
    return kernels.solve_ridge(
        cohort.indptr, cohort.items, labels, u, ridge=ridge, gram=gram, backend=backend
    )


def fit_biased_vectors(
    cohort: Cohort,
    targets: Float32Array,
    factors: Float32Array,
    *,
    strength: float,
    bias_strength: float,
    exponent: float,
    content: Float32Array | None = None,
    backend: str,
) -> Float32Array:
    """``argmin sum_i (y_ij - c - <u_i, v>)^2 + n_j^exponent (bias_strength c^2 + strength |v|^2)`` of each user.

    With content, ratings are explained by ``<phi_i, h>`` too, see ``kernels.solve_own_models``.

    Args:
        cohort: the users. Private.
        targets: y, float32, shape (n_ratings,). Private.
        factors: u, float32, shape (n_items, rank). Public.
        strength: of the ridge on v.
        bias_strength: of that on c.
        exponent: both grow with a user's number of ratings to this power.
        content: phi, float32, shape (n_items, content width); None for nothing. Public.
        backend: which kernels compute.

    Returns:
        float32, shape (n_users, 1 + rank): (c_j, v_j), and h_j behind them where there is content. Private,
        unclipped.
    """
    # One ridge for all coordinates: the constant column is scaled so that it stands for the bias's own ridge.
    scale = np.float32(np.sqrt(strength / bias_strength))
    rows, items = rated_rows(cohort.items, factors.shape[0])
    columns = np.column_stack([np.full(len(factors[rows]), scale), factors[rows]])
    ridge = user_ridges(cohort, strength, exponent)
    if content is None:
        solved = kernels.solve_ridge(cohort.indptr, items, targets, columns, ridge=ridge, backend=backend)
    else:
        solved, _ = kernels.solve_own_models(
            cohort.indptr, items, targets, columns, content[rows], ridge=ridge, backend=backend
        )
    solved[:, 0] *= scale
    return solved


_OF_LABELS, _OF_NUMBERS, _OF_BOTH = 0.75, 0.4, 0.55
"""Lengths of the three parts of phi: square roots of the shares of taste that they hold."""
_OF_KNOWN, _OF_LIKED = 0.35, 0.3
"""Lengths, per deviation, of the logarithm of an item's released count and of its released bias."""
_FARTHEST = 3.0
_BUMPS = 9
"""Gaussian bumps along a number, centred on quantiles of the catalogue."""
_BUMP_WIDTH = 1 / 3
"""Their deviation, in deviations of the number."""
_EVERY = 3
"""Every so many of them is crossed with the labels."""
_MOST_CURVED = 3
"""With more numbers than these they are coordinates (an embedding, say), and enter as they are."""
_MOST_CROSSED = 192
"""Columns that cross labels with numbers; beyond it, the commonest labels alone are crossed."""


def content_of(board: Board) -> Float32Array | None:
    """What own models multiply h with, from what is public on a board; None where its features say nothing.

    Args:
        board: its features, and two facts of its own: how known an item is and how liked, since people differ in
            what they make of both.

    Returns:
        float32, shape (n_items, width). Public.
    """
    features = board.catalogue.features
    if features is None or content_vectors(features).shape[1] == 0:
        return None
    none = np.zeros(features.n_items)
    known = np.log(np.maximum(board.arrays.get("item_counts", none), 1.0))
    liked = np.asarray(board.arrays.get("item_biases", none), dtype=np.float64)
    facts = np.stack([known, liked], axis=1)
    of_board = np.clip(standardised(facts), -_FARTHEST, _FARTHEST) * (_OF_KNOWN, _OF_LIKED)
    return np.concatenate([content_vectors(features), of_board], axis=1, dtype=np.float32)


@lru_cache(maxsize=4)
def content_vectors(features: CatalogueFeatures) -> Float32Array:
    """Phi of every item, float32, shape (n_items, width); zeros where nothing is known of an item."""
    labels = unit_rows(features.labels.astype(np.float64))
    numbers = features.numbers.astype(np.float64)
    if numbers.shape[1] > _MOST_CURVED:
        coordinates = standardised(numbers) / np.sqrt(numbers.shape[1])
        coordinates /= np.maximum(np.linalg.norm(coordinates, axis=1, keepdims=True), 1.0)
        parts = [_OF_LABELS * labels, _OF_LABELS * coordinates]
    else:
        bumps = [_bumps(column) for column in numbers.T]
        curved = np.concatenate([np.zeros((features.n_items, 0)), *bumps], axis=1)
        sparse = [along[:, ::_EVERY] for along in bumps]
        crossed = _crossed(labels, np.concatenate([np.zeros((features.n_items, 0)), *sparse], axis=1))
        parts = [_OF_LABELS * labels, _OF_NUMBERS * unit_rows(curved), _OF_BOTH * unit_rows(crossed)]
    vectors = np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)
    vectors.flags.writeable = False
    return vectors


def _bumps(number: FloatArray) -> FloatArray:
    """Where an item stands along a number: float64, shape (n_items, _BUMPS); rows of norm 1, zeros if unknown."""
    known = np.isfinite(number)
    deviation = float(np.std(number[known])) if known.any() else 0.0
    if deviation <= 0:
        return np.zeros((number.size, 0))
    centres = np.quantile(number[known], (np.arange(_BUMPS) + 0.5) / _BUMPS)
    apart = (np.where(known, number, 0.0)[:, None] - centres) / (_BUMP_WIDTH * deviation)
    nearest = np.min(np.abs(apart), axis=1, keepdims=True)  # far from all centres the nearest still counts
    heights = np.exp(-0.5 * (apart**2 - nearest**2))
    return unit_rows(np.where(known[:, None], heights, 0.0))


def _crossed(labels: FloatArray, along: FloatArray) -> FloatArray:
    """Products of labels and bumps: float64, shape (n_items, at most _MOST_CROSSED)."""
    if along.shape[1] == 0:
        return np.zeros((labels.shape[0], 0))
    most = _MOST_CROSSED // along.shape[1]
    commonest = np.sort(np.argsort(-np.count_nonzero(labels, axis=0), kind="stable")[:most])
    products = labels[:, commonest, None] * along[:, None, :]
    return products.reshape(labels.shape[0], -1)


def standardised(numbers: FloatArray) -> FloatArray:
    """Columns of mean 0 and deviation 1 over the items where they are known, zeros elsewhere."""
    known = np.isfinite(numbers)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, numbers, 0.0)
    centred = np.where(known, filled - filled.sum(axis=0) / count, 0.0)
    spread = np.sqrt(np.sum(centred**2, axis=0) / count)
    return centred / np.where(spread > 0, spread, 1.0)


def unit_rows(values: FloatArray) -> FloatArray:
    """Rows of norm 1, or 0."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(norms > 0, norms, 1.0)
