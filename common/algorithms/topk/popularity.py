"""What the rounds together say of how popular items are: noisy counts, with the variance of each. Post-processing.

The unit is that of the first round, where each user's row of counts, ``1 / sqrt(k)`` on her k items, has norm 1.
"""

import numpy as np

from fedboard.common.algorithms.shared.levels import likely_counts
from fedboard.common.algorithms.topk.local import CONSTANT
from fedboard.common.arrays import BoolArray, FloatArray, IndexArray
from fedboard.common.board import AnyArray, Board

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
    found: IndexArray = np.argsort(-counts, kind="stable")[:number].astype(np.int32)
    return found


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
