"""Exact item sums as compiled loops in int64."""

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray, ShortArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, reading_spread, writing


@compiled()
def _add_entry(vector: IntArray, weight: int, response: int, squares: IntArray, linear: IntArray) -> None:
    """Add weight v v^T (packed) to ``squares``, unless it is empty, and weight response v to ``linear``."""
    rank = vector.size
    place = 0
    for row in range(rank):
        weighted = weight * vector[row]
        linear[row] += weighted * response
        if squares.size:
            own, others = squares[place : place + rank - row], vector[row:]
            for column in range(rank - row):
                own[column] += weighted * others[column]
            place += rank - row


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("int64", 1), reading("int16", 2)),
    *(reading_spread("int16"), reading_spread("int16"), INTEGER, INTEGER),
    *(writing("int64", 2), writing("int64", 2)),
)
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
    vector = np.empty(vectors.shape[1], np.int64)
    for item in range(start, stop):
        squares[item] = 0
        linear[item] = 0
        for k in range(indptr[item], indptr[item + 1]):
            weight, response = int(weights[entries[k]]), int(responses[entries[k]])
            for position in range(vector.size):
                vector[position] = vectors[users[k], position]
            _add_entry(vector, weight, response, squares[item], linear[item])
