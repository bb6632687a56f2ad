"""Exact item sums through float64 matrix products of integers that stay below 2^53."""

from typing import Final

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray, ShortArray

# |w v v| <= 2^15 2^12 2^12 and |w r v| <= 2^15 2^15 2^12, so 2^11 of them stay within 2^53: exact in float64.
EXACT_ENTRIES: Final = 1 << 11


def sum_rows(
    indptr: IntArray,
    users: IndexArray,
    entries: IntArray,
    vectors: ShortArray,
    weights: ShortArray,
    responses: ShortArray,
    start: int,
    stop: int,
    squares: IntArray,
    linear: IntArray,
) -> None:
    """Fill ``squares[start:stop]`` (unless it has no columns) and ``linear[start:stop]``."""
    upper = np.triu_indices(vectors.shape[1])
    squares[start:stop] = 0
    linear[start:stop] = 0
    for item in range(start, stop):
        for first in range(indptr[item], indptr[item + 1], EXACT_ENTRIES):
            chunk = slice(first, min(first + EXACT_ENTRIES, int(indptr[item + 1])))
            rated = vectors[users[chunk]].astype(np.float64)
            weighted = rated * weights[entries[chunk], np.newaxis]
            linear[item] += (weighted.T @ responses[entries[chunk]]).astype(np.int64)
            if squares.shape[1]:
                squares[item] += (weighted.T @ rated)[upper].astype(np.int64)
