"""Public columns that the start is measured along: what features say of the items, then the most popular items.

The noise of an r x r release moves its eigenvalues by up to s sqrt(2 r), so a start along few columns that hold
most of the users' second moments is worth more than one along all items.
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.tasks.topk.config import TopKConfig
from fedboard.common.wire.item_features import CatalogueFeatures

_FEWEST_ITEMS = 3
"""A column that no more of the learnt items carry is left out."""
_MOST_CURVED = 3
"""With more numbers than these they are coordinates (an embedding, say), and enter as they are."""
_MOST_PRODUCTS = 512
_KNOTS = 12
_SAME = 1e-6
_NEW = 0.05
"""How much of a column must be new, of norm 1 or of the largest, to be a direction of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Orthonormal columns over the learnt items, block by block; the first column is popularity. Public."""

    blocks: tuple[FloatArray, ...]
    """float64, each of shape (m', width): what is shrunk together later; popularity is the first column."""
    columns: FloatArray
    """All but popularity, and the popular items: float64, shape (m', r)."""


def public_basis(
    features: CatalogueFeatures | None,
    counts: FloatArray,
    items: IndexArray,
    settings: TopKConfig,
    *,
    most: int,
) -> Basis:
    """The columns for the learnt items.

    Args:
        features: of the whole catalogue, or None. Public.
        counts: of the learnt items, > 0, float64, shape (m',). Released.
        items: their numbers.
        settings: public.
        most: columns, popularity aside.
    """
    popularity = (counts / np.linalg.norm(counts))[:, None]
    blocks = [popularity]
    left = min(settings.start_width, counts.size - 1, most)
    if features is not None:
        weight = (counts / counts.max())[:, None] ** settings.feature_exponent
        for columns in feature_columns(features, items):
            new = _orthonormal(weight * columns, np.hstack(blocks))[:, : max(left, 0)]
            blocks.append(new)
            left -= new.shape[1]
        blocks = [np.hstack(blocks[:2]), *blocks[2:]]
    known = np.hstack(blocks)
    popular = _popular_items(counts, known, left)
    return Basis(blocks=tuple(blocks), columns=np.hstack([known[:, 1:], popular]))


def feature_columns(features: CatalogueFeatures, items: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Labels and hats along the numbers; their products. float64, each of shape (m', width)."""
    labels = features.labels[items].astype(np.float64)
    labels = labels[:, labels.sum(axis=0) > _FEWEST_ITEMS]
    hats = np.hstack([np.zeros((items.size, 0)), *(_hats(number) for number in _numbers(features, items).T)])
    pairs = list(combinations_with_replacement(range(labels.shape[1]), 2))
    often = sorted(pairs, key=lambda pair: -float(labels[:, pair[0]] @ labels[:, pair[1]]))[:_MOST_PRODUCTS]
    both = [labels[:, a] * labels[:, b] for a, b in often if a != b]
    crossed = (labels[:, :, None] * hats[:, None, :]).reshape(items.size, -1)[:, :_MOST_PRODUCTS]
    single = np.hstack([np.ones((items.size, 1)), labels, hats, _coordinates(features, items)])
    products = np.column_stack([np.zeros((items.size, 0)), *both, crossed])
    return single, products[:, np.count_nonzero(products, axis=0) > _FEWEST_ITEMS]


def _numbers(features: CatalogueFeatures, items: IndexArray) -> FloatArray:
    """The numbers that are curved; none where they are coordinates."""
    numbers = features.numbers[items].astype(np.float64)
    return numbers if numbers.shape[1] <= _MOST_CURVED else numbers[:, :0]


def _coordinates(features: CatalogueFeatures, items: IndexArray) -> FloatArray:
    """Many numbers as they are, standardised; 0 where unknown."""
    numbers = features.numbers[items].astype(np.float64)
    return standardised(numbers) if numbers.shape[1] > _MOST_CURVED else numbers[:, :0]


def standardised(numbers: FloatArray) -> FloatArray:
    """Columns of mean 0 and deviation 1 over the items where they are known, zeros elsewhere."""
    known = np.isfinite(numbers)
    number = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, numbers - np.where(known, numbers, 0.0).sum(axis=0) / number, 0.0)
    spread = np.sqrt(np.sum(centred**2, axis=0) / number)
    scaled: FloatArray = centred / np.where(spread > 0, spread, 1.0)
    return scaled


def _hats(number: FloatArray) -> FloatArray:
    """Piecewise linear bumps between quantiles of a number; rows of zeros where it is unknown."""
    known = np.isfinite(number)
    if not known.any():
        return np.zeros((number.size, 0))
    knots = np.unique(np.quantile(number[known], np.linspace(0.0, 1.0, _KNOTS)))
    values = np.where(known, number, knots[0])
    hats = np.stack([np.interp(values, knots, row) for row in np.eye(knots.size)], axis=1)
    hats[~known] = 0.0
    return hats


def _orthonormal(columns: FloatArray, against: FloatArray) -> FloatArray:
    """Orthonormal columns of the space that is new, strongest first; float64, shape (m', at most width)."""
    rest = columns - against @ (against.T @ columns)
    vectors, values, _ = np.linalg.svd(rest, full_matrices=False)
    least = (_SAME if against.shape[1] == 1 else _NEW) * max(float(values.max(initial=0.0)), 1e-300)
    kept = vectors[:, values > least]
    return np.linalg.qr(kept - against @ (against.T @ kept))[0]


def _popular_items(counts: FloatArray, known: FloatArray, number: int) -> FloatArray:
    """The most popular items as columns, orthonormal among themselves and to what is known."""
    chosen = np.argsort(-counts, kind="stable")[: max(number, 0)]
    columns = np.zeros((counts.size, chosen.size))
    columns[chosen, np.arange(chosen.size)] = 1.0
    rest = columns - known @ known[chosen].T
    rest -= known @ (known.T @ rest)
    if not chosen.size:
        return rest
    vectors, values, _ = np.linalg.svd(rest, full_matrices=False)
    return vectors[:, values > _NEW]
