"""What is computed row by row, as compiled loops: sums, norms, residuals, the best items, and broken bounds.

The loops over bounds are over exact integers, each simple enough to go by whole vectors.
"""

from math import sqrt

import numpy as np

from fedboard.common.arrays import BoolArray, Float32Array, FloatArray, IndexArray, IntArray, ShortArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing


@compiled(
    *(reading("int32", 1), reading("float32", 1), reading("float32", 1), writing("float32", 1)),
)
def subtract_levels(items: IndexArray, values: Float32Array, levels: Float32Array, out: Float32Array) -> None:
    """Fill ``out`` (n_entries,); arguments as in ``less_levels``."""
    for k in range(items.size):
        out[k] = values[k] - levels[items[k]]


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1)),
    *(reading("float64", 1), writing("float64", 1)),
)
def add_by_row(
    indptr: IntArray, items: IndexArray, values: Float32Array, levels: FloatArray, out: FloatArray
) -> None:
    """Fill ``out`` (n_rows,); arguments as in ``sums_by_row``."""
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[k]) - levels[items[k]]
        out[row] = total


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1)),
    *(reading("float64", 1), writing("float64", 1)),
)
def add_by_item(
    indptr: IntArray, items: IndexArray, values: Float32Array, levels: FloatArray, out: FloatArray
) -> None:
    """Add to ``out`` (n_items,), which holds zeros; arguments as in ``sums_by_item``."""
    for row in range(indptr.size - 1):
        level = levels[row]
        for k in range(indptr[row], indptr[row + 1]):
            out[items[k]] += np.float64(values[k]) - level


@compiled(
    *(reading("int64", 1), reading("float64", 1), reading("float64", 1), writing("float64", 1)),
)
def fill_norms(indptr: IntArray, weights: FloatArray, values: FloatArray, out: FloatArray) -> None:
    """Fill ``out`` (n_rows,); arguments as in ``norms_by_row``."""
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            part = weights[k] * values[k]
            total += part * part
        out[row] = sqrt(total)


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float64", 1)),
    *(INTEGER, writing("float64", 1)),
)
def scale_rows(
    indptr: IntArray, items: IndexArray, item_weights: FloatArray, spend_all: int, out: FloatArray
) -> None:
    """Fill ``out`` (n_entries,); arguments as in ``unit_rows``. Adds along the row, in order."""
    least = 0.0 if spend_all else 1.0
    for row in range(indptr.size - 1):
        own = items[indptr[row] : indptr[row + 1]]
        shares = out[indptr[row] : indptr[row + 1]]
        total = 0.0
        for k in range(own.size):
            weight = item_weights[own[k]]
            shares[k] = weight
            total += weight * weight
        norm = max(sqrt(total), least)
        for k in range(own.size):
            share = shares[k] / norm
            shares[k] = share if share < 1.0 else 1.0  # not min(): it looks for NaN and does not vectorise


@compiled()
def _product(
    vectors: Float32Array, item: int | np.int32, own: Float32Array, row: int, place: int
) -> np.float64:
    """One term of the inner product; exact, since float64 holds a product of two float32."""
    return np.float64(vectors[item, place]) * np.float64(own[row, 1 + place])


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2)),
    *(reading("float32", 2), writing("float64", 1)),
)
def fill_residuals(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    vectors: Float32Array,
    own: Float32Array,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``residuals_of_rows``.

    Even and odd places are summed apart, and in each eight places the last come first: the order of numpy's einsum
    on x86-64, so that a run gives the same board with either.
    """
    width = vectors.shape[1]
    eights = width // 8 * 8
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            item = items[k]
            even, odd = 0.0, 0.0
            for first in range(0, eights, 8):
                for back in range(4):
                    place = first + 6 - 2 * back
                    even = _product(vectors, item, own, row, place) + even
                    odd = _product(vectors, item, own, row, place + 1) + odd
            for place in range(eights, width, 2):
                even = _product(vectors, item, own, row, place) + even
                if place + 1 < width:
                    odd = _product(vectors, item, own, row, place + 1) + odd
            out[k] = np.float64(targets[k] - own[row, 0]) - (even + odd)


@compiled()
def _insert(score: float, item: int, kept_scores: Float32Array, kept_items: IndexArray) -> None:
    """Put an item into a list that descends by score, behind its equals; the last one drops out."""
    place = kept_scores.size - 1
    while place > 0 and kept_scores[place - 1] < score:
        kept_scores[place] = kept_scores[place - 1]
        kept_items[place] = kept_items[place - 1]
        place -= 1
    kept_scores[place] = score
    kept_items[place] = item


@compiled(writing("float32", 2), reading("int64", 1), reading("int32", 1), writing("int32", 2))
def select(
    scores: Float32Array, exclude_indptr: IntArray, exclude_items: IndexArray, best: IndexArray
) -> None:
    """Fill ``best`` (n, k) from ``scores`` (n, n_items); overwrites the scores of excluded items."""
    kept_scores = np.empty(best.shape[1], np.float32)
    for row in range(scores.shape[0]):
        for k in range(exclude_indptr[row], exclude_indptr[row + 1]):
            scores[row, exclude_items[k]] = -np.inf
        kept_scores[:] = -np.inf
        best[row] = -1
        for item in range(scores.shape[1]):
            if scores[row, item] > kept_scores[-1]:
                _insert(scores[row, item], item, kept_scores, best[row])


@compiled()
def _ascends(items: IndexArray, n_items: int) -> bool:
    """Whether items ascend strictly within the catalogue: then the first and the last are its ends."""
    if items.size == 0:
        return True
    wrong = np.int64(0)
    for k in range(1, items.size):
        wrong += np.int64(items[k] <= items[k - 1])
    return bool(wrong == 0 and items[0] >= 0 and items[items.size - 1] < n_items)


@compiled()
def _beyond(values: ShortArray, low: int, high: int) -> bool:
    wrong = np.int64(0)
    for k in range(values.size):
        wrong += np.int64((values[k] < low) | (values[k] > high))
    return bool(wrong > 0)


@compiled()
def _squares(values: ShortArray) -> np.int64:
    total = np.int64(0)
    for k in range(values.size):
        number = np.int32(values[k])
        total += np.int64(np.int32(number * number))  # at most 2^30
    return total


@compiled()
def _squared_products(weights: ShortArray, responses: ShortArray) -> np.int64:
    total = np.int64(0)
    for k in range(weights.size):
        product = np.int64(np.int32(np.int32(weights[k]) * np.int32(responses[k])))
        total += product * product
    return total


@compiled(
    *(reading("int64", 1), reading("int32", 1), INTEGER, reading("int16", 2), reading("int16", 1)),
    *(reading("int16", 1), reading("int64", 1), INTEGER, writing("boolean", 1)),
)
def mark_broken(
    indptr: IntArray,
    items: IndexArray,
    n_items: int,
    vectors: ShortArray,
    weights: ShortArray,
    responses: ShortArray,
    limits: IntArray,
    split: int,
    out: BoolArray,
) -> None:
    """Fill ``out`` (n_rows,); arguments as in the reference.

    Sums of squares fit int64 whatever was sent, but for those of products: these are looked at only where nothing
    else is broken, and are below 2^53 then.
    """
    entry, squared_vector, squared_weights, squared_responses = limits[0], limits[1], limits[2], limits[3]
    joint_high, joint_low = limits[4], limits[5]
    low_half = (np.int64(1) << split) - 1
    for row in range(indptr.size - 1):
        first, last = indptr[row], indptr[row + 1]
        norm = _squares(vectors[row])
        broken = norm > squared_vector or not _ascends(items[first:last], n_items)
        if weights.size > 0:
            own = weights[first:last]
            broken = broken or _beyond(own, 0, 32767) or _squares(own) > squared_weights
        if responses.size > 0:
            given = responses[first:last]
            broken = broken or _beyond(given, -entry, entry)
            broken = broken or (squared_responses >= 0 and _squares(given) > squared_responses)
        if joint_high >= 0 and not broken:
            products = _squared_products(weights[first:last], responses[first:last])
            low = (products & low_half) * norm
            high = (products >> split) * norm + (low >> split)
            low &= low_half
            broken = high > joint_high or (high == joint_high and low > joint_low)
        out[row] = broken
