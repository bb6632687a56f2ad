"""The columns and directions of top-k lists: what is measured at the start, and what rises above the noise.

Public columns that the start is measured along: what features say of the items, then the most popular items.

The noise of an r x r release moves its eigenvalues by up to s sqrt(2 r), so a start along few columns that hold
most of the users' second moments is worth more than one along all items.

From noised second moments to directions: what rises above the noise, shrunk as far as the noise demands.

Everything here is post-processing of releases; the noise is known exactly.

Beside directions, counts: what the rounds together say of how popular items are, with the variance of each. Their
unit is that of the first round, where each user's row of counts, ``1 / sqrt(k)`` on their k items, has norm 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from fedboard.common.algorithms.shared.levels import likely_counts
from fedboard.common.algorithms.shared.regression import standardised
from fedboard.common.algorithms.topk.device import CONSTANT, TopKConfig
from fedboard.common.arrays import BoolArray, FloatArray, IndexArray
from fedboard.common.board import AnyArray, Board
from fedboard.common.item_features import CatalogueFeatures

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


FIRST_VALUE, SECOND_VALUE, FLOOR = 700.0, 110.0, 11.0
"""The shape of a usual spectrum, for the gauge alone: only ratios matter. Public guesses."""
_JUST_ABOVE = 1.0001
_CLEARLY_ABOVE = 1.02
_LEAST = 1e-6
_STEPS = 8
_AT_LEAST, _FOR_EACH = 4, 3
"""Directions that are kept: so many, and for each above the noise as many more. Beside those that are seen some are
real; where few are seen, more would drown them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What the start found. Public."""

    axes: FloatArray
    """V: float64, shape (r, n), n at most d, along the columns of the start."""
    values: FloatArray
    """Eigenvalues freed of noise, float64, shape (n,), decreasing."""
    above: int
    """How many are clearly above the largest that noise alone would give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directions:
    """Orthonormal directions over the learnt items with what is believed of them. Public."""

    axes: FloatArray
    """E: float64, shape (m', n)."""
    values: FloatArray
    """Singular values, float64, shape (n,), decreasing."""
    agreement: FloatArray
    """Expected squared cosine with the truth, float64, shape (n,), in [0, 1]."""


def started(matrix: FloatArray, stddev: float, *, rank: int, known: FloatArray) -> Started:
    """Leading eigenvectors of a noised symmetric matrix, apart from a direction that is known.

    Noise of deviation ``stddev`` on isometric coordinates moves the eigenvalues of an r x r matrix by up to
    ``stddev sqrt(2 r)``; a larger one, x, was about ``(x + sqrt(x^2 - edge^2)) / 2`` before.

    Args:
        matrix: noised, float64, shape (r, r).
        stddev: of its noise, >= 0.
        rank: of the directions to keep, at most.
        known: the part of popularity along the columns, float64, shape (r,): it is no taste.

    Reference: Baik, Ben Arous and Peche (2005); Benaych-Georges and Nadakuditi (2011).
    """
    own = known / max(float(np.linalg.norm(known)), 1e-300)
    rest = matrix - np.outer(own, own @ matrix)
    values, vectors = np.linalg.eigh(rest - np.outer(rest @ own, own))
    edge = stddev * np.sqrt(2.0 * matrix.shape[0])
    above = int((values > _CLEARLY_ABOVE * edge).sum())
    kept = np.argsort(-values, kind="stable")[: min(rank, _AT_LEAST + _FOR_EACH * above)]
    raised = np.maximum(values[kept], _JUST_ABOVE * max(edge, 1e-12))
    freed = (raised + np.sqrt(raised**2 - edge**2)) / 2 * np.where(values[kept] > edge, 1.0, 0.5)
    return Started(axes=vectors[:, kept], values=freed, above=above)


def gauge(values: FloatArray, exponent: float) -> FloatArray:
    """S: how each direction is scaled before the next round; popularity first. float64, shape (d + 1,), <= 1."""
    shape = (
        np.concatenate([[FIRST_VALUE], values / values[0] * SECOND_VALUE])
        if values.size
        else np.array([FIRST_VALUE])
    )
    scale: FloatArray = np.maximum(shape, FLOOR) ** -exponent
    scale /= scale.max()
    return scale


def denoised(
    columns: FloatArray, scale: FloatArray, blocks: Sequence[FloatArray], counts: FloatArray, *, stddev: float
) -> Directions:
    """Directions of ``columns / scale``, freed of their noise.

    Rotated by its right singular vectors, each column is split into its parts along public blocks, which are
    shrunk as a whole (positive-part James-Stein), and the rest, which is shrunk item by item under a prior whose
    variance grows with the item's count: the energy of a row of second moments does.

    Args:
        columns: B = G U S and noise, float64, shape (m', n).
        scale: S > 0, float64, shape (n,).
        blocks: orthonormal columns, float64, each of shape (m', width).
        counts: > 0, float64, shape (m',).
        stddev: noise deviation of each number of ``columns``, > 0.
    """
    _, _, turn = np.linalg.svd(columns / stddev, full_matrices=False)
    turned = columns / stddev @ turn.T
    kept, signal, trusted = np.zeros(turned.shape), np.zeros(turned.shape[1]), np.zeros(turned.shape[1])
    rest = turned.copy()
    for block in blocks:
        part = block @ (block.T @ turned)
        rest -= part
        energy = np.sum(part**2, axis=0)
        share = np.maximum(0.0, 1.0 - block.shape[1] / np.maximum(energy, 1e-300))
        kept += part * share
        signal += energy * share
        trusted += energy * share**2
    share, variance = _by_count(rest, counts, sum(block.shape[1] for block in blocks))
    kept += rest * share
    signal += variance.sum(axis=0)
    trusted += (share * variance).sum(axis=0)
    return _axes_of(kept, turn, scale, trusted / np.maximum(signal, 1e-300))


def _by_count(rest: FloatArray, counts: FloatArray, taken: int) -> tuple[FloatArray, FloatArray]:
    """Posterior shares and prior variances of the rest, both float64, shape (m', n); its noise has variance 1.

    ``tau^2`` of each column by weighted moments, the weights those that are best for the current ``tau^2``.
    """
    shape = (counts / counts.mean())[:, None]
    noise = max(counts.size - taken, 0) / counts.size
    variance = np.zeros((1, rest.shape[1]))
    for _ in range(_STEPS):
        weights = shape / (variance * shape + 1.0) ** 2
        excess = (weights * (rest**2 - noise)).sum(axis=0, keepdims=True)
        variance = np.maximum(0.0, excess / (weights * shape).sum(axis=0, keepdims=True))
    prior: FloatArray = variance * shape
    return prior / (prior + 1.0), prior


def _axes_of(kept: FloatArray, turn: FloatArray, scale: FloatArray, agreement: FloatArray) -> Directions:
    """Undo rotation and gauge; the agreement of each direction is the average of those that it is made of."""
    axes, values, right = np.linalg.svd(kept @ turn / scale, full_matrices=False)
    used = values > _LEAST * max(float(values.max(initial=0.0)), 1e-300)
    axes, values, right = axes[:, used], values[used], right[used]
    made_of = ((turn / scale) @ right.T / values) ** 2 * np.sum(kept**2, axis=0)[:, None]
    of_each = made_of.T @ agreement / np.maximum(made_of.sum(axis=0), 1e-300)
    return Directions(axes=axes, values=values, agreement=of_each)


_SHOWN = 40
"""Lists are made of about so many items: what has no chance to be among them is no longer counted."""
_DEVIATIONS = 2.0
"""How far noise is believed to have moved a count."""
_FEWEST = 256
"""Items that are counted at least: among fewer, people with one of them alone would decide."""
_MOST_GAIN = 10.0
_LEAST_DOUBT = 1e-6
_LEAST_OF_NOISE, _LEAST_OF_LARGEST = 0.02, 1e-3

Counts = tuple[FloatArray, FloatArray]
"""Noisy counts and their variances, both float64, shape (n_items,)."""


def counts_of(board: Board) -> Counts:
    """As the board has them."""
    noisy, variance = (
        np.array(board.arrays[name], np.float64) for name in ("noisy_counts", "count_variance")
    )
    return noisy, variance


def positive(noisy: FloatArray, variance: FloatArray) -> FloatArray:
    """Counts as positive numbers, however noisy."""
    stddev = float(np.sqrt(variance.max()))
    return np.maximum(noisy, max(_LEAST_OF_NOISE * stddev, _LEAST_OF_LARGEST * float(noisy.max())))


def arrays_of(counts: Counts) -> dict[str, AnyArray]:
    """What a board says of counts."""
    noisy, variance = counts
    return {"item_counts": positive(noisy, variance), "noisy_counts": noisy, "count_variance": variance}


def first(counts: FloatArray, number: int) -> IndexArray:
    """Numbers of the items that lead, int32, shape (number,) or fewer."""
    return np.argsort(-counts, kind="stable")[:number].astype(np.int32)


def contenders(counts: Counts) -> AnyArray:
    """Items that may yet be shown: 1 where a count may be as large as those that lead; uint8, shape (n_items,)."""
    noisy, variance = counts
    stddev = np.sqrt(variance)
    likely = np.sort(likely_counts(noisy, stddev=float(np.median(stddev))).mean)
    found: AnyArray = (noisy + _DEVIATIONS * stddev >= likely[-min(_SHOWN, likely.size)]).astype(np.uint8)
    found[first(noisy, _FEWEST)] = 1
    return found


def joined(counts: Counts, again: FloatArray, counted: BoolArray, stddev: float) -> Counts:
    """Counts after a round that counted some of the items, each by its precision.

    Among fewer items a user's row of norm 1 is longer on each. By how much at least, on average, is told by what
    the same items were likely to have before: likely, since of what leads some does so by noise.

    Args:
        counts: before.
        again: of the round, float64, shape (n_items,).
        counted: which items it counted.
        stddev: of the noise in each.
    """
    noisy, variance = counts
    likely = likely_counts(noisy[counted], stddev=float(np.sqrt(np.median(variance[counted])))).mean
    sure = float(again[counted].sum()) - stddev * np.sqrt(np.count_nonzero(counted))
    gain = float(np.clip(sure / max(float(likely.sum()), 1e-12), 1.0, _MOST_GAIN))
    precision = np.where(counted, (gain / stddev) ** 2, 0.0)
    together = 1.0 / variance + precision
    return (noisy / variance + again / gain * precision) / together, 1.0 / together


def corrected(
    counts: Counts,
    items: IndexArray,
    columns: FloatArray,
    crossed: FloatArray,
    *,
    last: float,
    population: float,
    stddev: float,
) -> Counts:
    """Counts after the start, where beside the constant coordinate stands ``sum beta Q^T z / |v|^2``.

    Its columns are orthogonal to the counts so far, so that what stands there is how these err.

    Args:
        counts: before.
        items: numbers of the learnt items.
        columns: Q, orthonormal, float64, shape (m', r).
        crossed: what stands beside the constant coordinate, float64, shape (r,).
        last: what stands on its diagonal, ``sum beta^2 / |v|^2``: it tells the unit.
        population: users.
        stddev: of the noise on the diagonal; beside it, it is smaller by sqrt 2.
    """
    noisy, variance = (part.copy() for part in counts)
    inside = float(noisy[items].sum()) / max(float(noisy.sum()), 1e-12)
    unit = max(last, 0.0) / (CONSTANT * population) / np.sqrt(np.clip(inside, 0.1, 1.0))
    own = float(np.mean(variance[items]))
    trust = unit**2 * own / (unit**2 * own + stddev**2 / 2.0)
    if trust > 0.0:
        noisy[items] += columns @ (crossed * (trust / unit))
        variance[items] *= np.maximum(1.0 - trust * np.sum(columns**2, axis=1), _LEAST_DOUBT)
    return noisy, variance
