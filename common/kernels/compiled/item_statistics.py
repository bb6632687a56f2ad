"""Exact item sums in int32 registers: pairs of int16 are multiplied and added, and moved to int64 in time.

A weighted number w v does not fit into 16 bits; it is split into w v = 2^SPLIT_BITS high + low, and both halves do.
Panels hold two rows side by side in an int32, as processors multiply and add them. w r is split in three parts of
at most ``_PART_BITS`` bits. Every part times v is summed on its own; the sums are put together in int64.

**No sum in 32 bits overflows.** With |v| <= 2^12 a rating changes no sum by more than
``held = max((2^12 |w| + 2^12) >> 13, 2^12) 2^12``: it adds v times |high| = |(w v + 2^12) >> 13|, or times
|low| <= 2^12, or times a part of w r, below 2^12. A panel takes ratings as long as their ``held`` since the sums
were last moved add up to less than 2^31; one alone is at most 2^26.
"""

from typing import Any, Final

import numpy as np
from llvmlite import ir

from fedboard.common.arrays import IndexArray, IntArray, PairArray, ShortArray
from fedboard.common.kernels.compiled.panels import (
    add_outer_products,
    add_tile,
    lanes_of,
    prefetch,
    prefetch_row,
)
from fedboard.common.kernels.compiled.vectors import ROUNDED_PRODUCTS, Emitter, Value, call, emitted
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, reading_spread, writing

SPLIT_BITS: Final = 13
"""|w| <= 2^15 and |v| <= 2^12, so |high| <= 2^14 and low is in -2^12 .. 2^12 - 1."""

_ROWS_AHEAD: Final = 32
_SHORT, _WORD, _BIT = ir.IntType(16), ir.IntType(32), ir.IntType(1)


@compiled()
def gather_pairs(
    vectors: ShortArray,
    rank: int,
    users: IndexArray,
    first: int,
    count: int,
    weights: PairArray,
    plain: PairArray,
    low: PairArray,
    high: PairArray,
    step: int,
) -> None:
    """Lay v = vectors[users[first + k]] in ``plain`` and the halves of w v in ``low`` and ``high``, k < count.

    Ratings 2 p and 2 p + 1 make row p of the panels. Where ``count`` is odd the last weight is 0, so whatever is
    beside it counts for nothing.
    """
    lanes = lanes_of(plain)
    whole = rank // lanes * lanes
    last = users.size - 1
    for pair in range((count + 1) // 2):
        k = first + 2 * pair
        prefetch_row(vectors, int(users[min(k + _ROWS_AHEAD, last)]), rank)
        prefetch_row(vectors, int(users[min(k + _ROWS_AHEAD + 1, last)]), rank)
        one, other = int(users[k]) * rank, int(users[min(k + 1, first + count - 1)]) * rank
        to = pair * step
        for column in range(0, whole, lanes):
            split_pair(vectors, one, other, column, lanes, weights, pair, plain, low, high, to, 1)
        if whole < rank:
            split_pair(vectors, one, other, whole, rank - whole, weights, pair, plain, low, high, to, 0)


@emitted()
def split_pair(
    builder: Any,
    source: Emitter,
    one: Value,
    other: Value,
    column: Value,
    count: Value,
    weights: Emitter,
    pair: Value,
    plain: Emitter,
    low: Emitter,
    high: Emitter,
    target: Value,
    whole: int,
) -> None:
    """One vector of pairs from a column of two rows of ``source``, as it is and times its weights, split.

    ``count`` numbers are read of each, the others are zero; ``whole`` says that there are as many as lanes.
    """
    places = [builder.add(row, column) for row in (one, other)]
    rows = [_numbers(source, place, plain.lanes, None if whole else count) for place in places]
    order = [lane + half * plain.lanes for lane in range(plain.lanes) for half in (0, 1)]
    values = builder.shuffle_vector(*rows, ir.Constant(ir.VectorType(_WORD, 2 * plain.lanes), order))
    weight = builder.bitcast(weights.load_splat(pair), values.type)
    lower, upper = _split_products(builder, values, weight)
    for panel, part in ((plain, values), (low, lower), (high, upper)):
        panel.store(builder.bitcast(part, plain.vector), builder.add(target, column))


@emitted()
def move_pair_sums(
    builder: Any, low: Emitter, high: Emitter, place: Value, sums: Emitter, shift: int
) -> None:
    """Add low + 2^shift high to the int64 ``sums``, a vector from ``place`` on, and clear both."""
    wide = ir.VectorType(sums.element, low.lanes)
    lower, upper = (builder.sext(part.load(place), wide) for part in (low, high))
    for part in (low, high):
        part.store(part.constant([0] * part.lanes), place)
    both = builder.add(lower, builder.shl(upper, _all(wide, shift)))
    address = builder.bitcast(builder.gep(sums.base, [place]), wide.as_pointer())
    builder.store(builder.add(builder.load(address, align=8), both), address, align=8)


def _numbers(source: Emitter, place: Value, lanes: int, count: Value | None) -> Value:
    """The int16 numbers from ``place`` on: one vector, or so many of it and zeros, without reading beyond."""
    builder, kind = source.builder, ir.VectorType(_SHORT, lanes)
    address = builder.bitcast(builder.gep(source.base, [place]), kind.as_pointer())
    if count is None:
        return builder.load(address, align=2)
    counts = ir.VectorType(ir.IntType(64), lanes)
    single = builder.insert_element(ir.Constant(counts, ir.Undefined), count, _WORD(0))
    everywhere = builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(_WORD, lanes), [0] * lanes))
    wanted = builder.icmp_signed("<", ir.Constant(counts, list(range(lanes))), everywhere)
    signature = ir.FunctionType(kind, [kind.as_pointer(), _WORD, ir.VectorType(_BIT, lanes), kind])
    name = f"llvm.masked.load.v{lanes}i16.p0v{lanes}i16"
    return call(builder, name, signature, [address, _WORD(2), wanted, _all(kind, 0)])


def _split_products(builder: Any, values: Value, weights: Value) -> tuple[Value, Value]:
    """(low, high) of w v: high = (w v + 2^12) >> 13, and what is left, which 16 bits hold."""
    fourfold = builder.shl(values, _all(values.type, 2))  # within +-2^14
    high = _rounded_products(builder, fourfold, weights)
    products = builder.mul(values, weights)  # modulo 2^16, as is the next line
    return builder.sub(products, builder.shl(high, _all(values.type, SPLIT_BITS))), high


def _rounded_products(builder: Any, left: Value, right: Value) -> Value:
    """(left right + 2^14) >> 15 of int16 numbers."""
    kind = left.type
    if ROUNDED_PRODUCTS:
        return call(builder, ROUNDED_PRODUCTS, ir.FunctionType(kind, [kind, kind]), [left, right])
    wide = ir.VectorType(_WORD, kind.count)
    products = builder.mul(builder.sext(left, wide), builder.sext(right, wide))
    rounded = builder.ashr(builder.add(products, _all(wide, 1 << 14)), _all(wide, 15))
    return builder.trunc(rounded, kind)


def _all(kind: Any, value: int) -> Value:
    return ir.Constant(kind, [value] * kind.count)


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
