"""Exact item sums in int32 registers: pairs of int16 are multiplied and added, and moved to int64 in time.

A weighted number w v is split in two (``pairs``), w r in three parts of at most ``_PART_BITS`` bits. Every part
times v is summed on its own; the sums are put together in int64.

**No sum in 32 bits overflows.** With |v| <= 2^12 a rating changes no sum by more than
``held = max((2^12 |w| + 2^12) >> 13, 2^12) 2^12``: it adds v times |high| = |(w v + 2^12) >> 13|, or times
|low| <= 2^12, or times a part of w r, below 2^12. A panel takes ratings as long as their ``held`` since the sums
were last moved add up to less than 2^31; one alone is at most 2^26.
"""

from typing import Final

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray, PairArray, ShortArray
from fedboard.common.kernels.compiled.pairs import SPLIT_BITS, gather_pairs, move_pair_sums
from fedboard.common.kernels.compiled.panels import prefetch
from fedboard.common.kernels.compiled.tiles import add_outer_products, add_tile, lanes_of
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, reading_spread, writing

# Three panels share the first-level cache with the sums.
_PANEL_ELEMENTS: Final = 2 * 1024
_AHEAD: Final = 64
_VECTOR_BITS: Final = 12
_ROOM: Final = (1 << 31) - 1
_PARTS: Final = 3
_PART_BITS: Final = 11
_PART_STEP: Final = 4


@compiled()
def _gather_scalars(
    entries: IntArray,
    first: int,
    last: int,
    room: int,
    weights: ShortArray,
    responses: ShortArray,
    panel_weights: ShortArray,
    parts: ShortArray,
) -> tuple[int, int]:
    """Copy weights and split products w r of the entries from ``first`` on, as long as sums and panel have room.

    Returns:
        how many were copied, and the room that is left. Where their number is odd, a zero follows.
    """
    count, most = 0, panel_weights.size
    mask = (1 << _PART_BITS) - 1
    weight_step = weights.strides[0] // weights.itemsize
    response_step = responses.strides[0] // responses.itemsize
    while count < most and first + count < last:
        ahead = entries[min(first + count + _AHEAD, entries.size - 1)]
        prefetch(weights, ahead * weight_step)
        prefetch(responses, ahead * response_step)
        entry = entries[first + count]
        weight = np.int64(weights[entry])  # int() would stay in 16 bits
        largest = ((abs(weight) << _VECTOR_BITS) + (1 << SPLIT_BITS - 1)) >> SPLIT_BITS
        held = max(largest, np.int64(1 << SPLIT_BITS - 1)) << _VECTOR_BITS
        if held > room:
            break
        room -= int(held)
        panel_weights[count] = weight
        product = weight * np.int64(responses[entry])
        place = count // 2 * 2 * _PART_STEP + count % 2
        parts[place] = product & mask
        parts[place + 2] = (product >> _PART_BITS) & mask
        parts[place + 4] = product >> 2 * _PART_BITS
        count += 1
    if count % 2:
        panel_weights[count] = 0
        place = count // 2 * 2 * _PART_STEP + 1
        parts[place] = parts[place + 2] = parts[place + 4] = 0
    return count, room


@compiled()
def _add_moments(parts: PairArray, plain: PairArray, count: int, moments: PairArray, size: int) -> None:
    """Add the three parts of sum_k w r v to the rows of ``moments``."""
    lanes, column = lanes_of(moments), 0
    while column + 4 * lanes <= size:
        add_tile(parts, 0, _PART_STEP, plain, column, size, count, moments, column, size, _PARTS, 4)
        column += 4 * lanes
    while column < size:
        add_tile(parts, 0, _PART_STEP, plain, column, size, count, moments, column, size, _PARTS, 1)
        column += lanes


@compiled()
def _move_sums(
    low: PairArray, high: PairArray, moments: PairArray, size: int, sums: IntArray, linear: IntArray
) -> None:
    """Put the sums in 32 bits together, add them to those in 64 bits and clear them."""
    lanes = lanes_of(moments)
    for row in range(linear.size):
        moment = np.int64(moments[2 * size + row]) << 2 * _PART_BITS
        linear[row] += moment + (np.int64(moments[size + row]) << _PART_BITS) + np.int64(moments[row])
        for column in range(row // lanes * lanes, size, lanes):
            move_pair_sums(low, high, row * size + column, sums, SPLIT_BITS)
    moments[:] = 0


@compiled()
def _pack(sums: IntArray, size: int, rank: int, squares: IntArray) -> None:
    """Copy the upper triangle of ``sums`` to ``squares`` and clear it."""
    place = 0
    for row in range(rank):
        for column in range(row, rank):
            squares[place + column - row] = sums[row * size + column]
        place += rank - row
    sums[:] = 0


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
    rank, flat = vectors.shape[1], vectors.reshape(-1)
    moments = np.zeros(1, np.int32)
    lanes = lanes_of(moments)
    size = (rank + lanes - 1) // lanes * lanes
    pairs = max(4, _PANEL_ELEMENTS // size)
    panel_weights, parts = np.zeros(2 * pairs, np.int16), np.zeros(2 * pairs * _PART_STEP, np.int16)
    weight_pairs, part_pairs = panel_weights.view(np.int32), parts.view(np.int32)
    plain = np.zeros(pairs * size, np.int32)
    lower, upper = np.zeros(pairs * size, np.int32), np.zeros(pairs * size, np.int32)
    low, high = np.zeros(size * size, np.int32), np.zeros(size * size, np.int32)
    sums, moments = np.zeros(size * size, np.int64), np.zeros(_PARTS * size, np.int32)
    for item in range(start, stop):
        linear[item] = 0
        first, last, room = indptr[item], indptr[item + 1], _ROOM
        while first < last:
            count, room = _gather_scalars(
                entries, first, last, room, weights, responses, panel_weights, parts
            )
            if count == 0:
                _move_sums(low, high, moments, size, sums, linear[item])
                room = _ROOM
                continue
            rows = (count + 1) // 2
            gather_pairs(flat, rank, users, first, count, weight_pairs, plain, lower, upper, size)
            _add_moments(part_pairs, plain, rows, moments, size)
            if squares.size:
                add_outer_products(lower, plain, size, rows, low, size, size)
                add_outer_products(upper, plain, size, rows, high, size, size)
            first += count
        _move_sums(low, high, moments, size, sums, linear[item])
        if squares.size:
            _pack(sums, size, rank, squares[item])
