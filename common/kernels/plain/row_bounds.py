"""Which rows break a bound, as one compiled loop over exact integers."""

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing


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
        broken = False
        before = np.int64(-1)
        of_weights, of_responses, of_products, norm = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for k in range(indptr[row], indptr[row + 1]):
            item = np.int64(items[k])
            if item <= before or item >= n_items:
                broken = True
            before = item
            if weights.size:
                weight = np.int64(weights[k])
                if weight < 0:
                    broken = True
                of_weights += weight * weight
            if responses.size:
                response = np.int64(responses[k])
                if response > entry or response < -entry:
                    broken = True
                of_responses += response * response
            if joint_high >= 0:
                product = np.int64(weights[k]) * np.int64(responses[k])
                of_products += product * product
        for place in range(vectors.shape[1]):
            number = np.int64(vectors[row, place])
            norm += number * number
        if norm > squared_vector or of_weights > squared_weights:
            broken = True
        if squared_responses >= 0 and of_responses > squared_responses:
            broken = True
        if joint_high >= 0 and not broken:
            low = (of_products & low_half) * norm
            high = (of_products >> split) * norm + (low >> split)
            low &= low_half
            if high > joint_high or (high == joint_high and low > joint_low):
                broken = True
        out[row] = broken
