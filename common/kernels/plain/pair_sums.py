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
    """Add to ``out``, which holds zeros; arguments as in ``pair_sums``. Rows may have items in any order."""
    for row in range(indptr.size - 1):
        for one in range(indptr[row], indptr[row + 1]):
            item, response = np.int64(items[one]), np.int64(responses[one])
            line = item * (2 * n_items - item - 1) // 2
            out[line + item] += response * response
            for other in range(one + 1, indptr[row + 1]):
                partner, product = np.int64(items[other]), response * np.int64(responses[other])
                if partner > item:
                    out[line + partner] += product
                elif partner < item:
                    out[partner * (2 * n_items - partner - 1) // 2 + item] += product
                else:
                    out[line + item] += 2 * product
