"""Which rows break a bound, as compiled loops over exact integers, each simple enough to go by whole vectors."""

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing


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
