"""Exact item sums in float64 registers: products of integers that stay below 2^53, moved to int64 in time."""

from typing import Final

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray, ShortArray
from fedboard.common.kernels.blocked.panels import gather_weighted, prefetch
from fedboard.common.kernels.blocked.tiles import add_outer_products, add_products, lanes_of
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing
from fedboard.common.kernels.reference.item_statistics import EXACT_ENTRIES

# Two panels share the first-level cache with the sums.
_PANEL_ELEMENTS: Final = 2 * 1024
_AHEAD: Final = 64


@compiled()
def _gather_scalars(
    entries: IntArray,
    first: int,
    count: int,
    weights: ShortArray,
    responses: ShortArray,
    chunk_weights: FloatArray,
    chunk_responses: FloatArray,
) -> None:
    """Copy the weights and responses of ``count`` entries to the front of the chunk arrays."""
    for k in range(count):
        ahead = entries[min(first + k + _AHEAD, entries.size - 1)]
        prefetch(weights, ahead)
        prefetch(responses, ahead)
        chunk_weights[k] = weights[entries[first + k]]
        chunk_responses[k] = responses[entries[first + k]]


@compiled()
def _move_sums(sums: FloatArray, moment: FloatArray, squares: IntArray, linear: IntArray) -> None:
    """Add the float64 sums (upper triangle, flat) to the int64 ones and clear them."""
    rank, size = linear.size, moment.size
    place = 0
    for row in range(rank):
        linear[row] += np.int64(moment[row])
        if squares.size:
            for column in range(row, rank):
                squares[place + column - row] += np.int64(sums[row * size + column])
            place += rank - row
    sums[:] = 0.0
    moment[:] = 0.0


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("int64", 1), reading("int16", 2)),
    *(reading("int16", 1), reading("int16", 1), INTEGER, INTEGER, writing("int64", 2), writing("int64", 2)),
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
    rank, flat = vectors.shape[1], vectors.reshape(-1)
    sums = np.zeros(1)
    lanes = lanes_of(sums)
    size = (rank + lanes - 1) // lanes * lanes
    rows = max(8, _PANEL_ELEMENTS // size)
    plain, weighted = np.zeros(rows * size), np.zeros(rows * size)
    chunk_weights, chunk_responses = np.empty(rows), np.empty(rows)
    sums, moment = np.zeros(size * size), np.zeros(size)
    for item in range(start, stop):
        squares[item] = 0
        linear[item] = 0
        held = 0
        for first in range(indptr[item], indptr[item + 1], rows):
            count = min(rows, indptr[item + 1] - first)
            if held + count > EXACT_ENTRIES:
                _move_sums(sums, moment, squares[item], linear[item])
                held = 0
            _gather_scalars(entries, first, count, weights, responses, chunk_weights, chunk_responses)
            gather_weighted(flat, rank, users, first, count, chunk_weights, plain, weighted, size)
            add_products(chunk_responses, 0, weighted, size, count, moment, size)
            if squares.size:
                add_outer_products(weighted, plain, size, count, sums, size, size)
            held += count
        _move_sums(sums, moment, squares[item], linear[item])
