"""Products of all pairs of a row as compiled loops."""

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray, ShortArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("int16", 1), INTEGER, writing("int64", 1)),
)
def add_pairs(
    indptr: IntArray, items: IndexArray, responses: ShortArray, n_items: int, out: IntArray
) -> None:
    """Add to ``out``, which holds zeros; arguments as in ``pair_sums``. Rows may have items in any order.

    Entries are gone through item by item, so that, where rows ascend, all sums of an item's line are added to while
    the line is in cache: a row's own pairs lie all over the matrix.
    """
    starts = np.zeros(n_items + 1, np.int64)
    for entry in range(items.size):
        starts[np.int64(items[entry]) + 1] += 1
    for item in range(n_items):
        starts[item + 1] += starts[item]
    entries, behind, free = np.empty(items.size, np.int64), np.empty(items.size, np.int32), starts.copy()
    for row in range(indptr.size - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            place = free[items[entry]]
            free[items[entry]] += 1
            entries[place], behind[place] = entry, indptr[row + 1] - entry
    for item in range(n_items):
        line = item * (2 * n_items - item - 1) // 2
        for place in range(starts[item], starts[item + 1]):
            one = entries[place]
            response = np.int64(responses[one])
            out[line + item] += response * response
            for other in range(one + 1, one + behind[place]):
                partner, product = np.int64(items[other]), response * np.int64(responses[other])
                if partner > item:
                    out[line + partner] += product
                elif partner < item:
                    out[partner * (2 * n_items - partner - 1) // 2 + item] += product
                else:
                    out[line + item] += 2 * product
