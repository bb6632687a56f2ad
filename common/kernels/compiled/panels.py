"""What several kernels are made of: copies, mixed words, scattered rows in a contiguous panel, and sums of outer
products tile by tile in registers, the step that takes most of the time.
"""

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, PairArray
from fedboard.common.kernels.compiled.vectors import (
    HAS_WIDE_VECTORS,
    Emitter,
    Registers,
    Value,
    call,
    counting,
    emitted,
    int64,
)
from fedboard.common.kernels.compiling import compiled

Flat = Float32Array | FloatArray | PairArray
"""A flat array; of pairs every product below is the sum of two (``Emitter``)."""


@emitted(types.int64)
def lanes_of(builder: Any, array: Emitter) -> Value:
    """Elements of ``array`` in one vector: a constant in compiled code."""
    return int64(array.lanes)


@compiled()
def copy_vector(source: FloatArray | Float32Array, target: FloatArray | Float32Array) -> None:
    """Copy the first numbers of ``source``, as many as ``target`` has."""
    for place in range(target.size):
        target[place] = source[place]


STRIDE: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = (np.uint64(bits) for bits in (27, 30, 31))


@compiled()
def mix(word: np.uint64) -> np.uint64:
    """A permutation of 64-bit words in which every bit of the input moves about half of the output's."""
    word = word + STRIDE
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


# Rows asked for before they are needed: enough to hide a miss in the second-level cache.
_AHEAD: Final = 16
_LINE_BYTES: Final = 64


@compiled()
def gather(
    factors: Float32Array,
    rank: int,
    columns: IndexArray,
    first: int,
    count: int,
    panel: Float32Array,
    step: int,
) -> None:
    """Copy factors[columns[first + k]] to row k of ``panel``, k = 0..count - 1; both arrays are flat."""
    lanes = lanes_of(factors)
    whole = rank // lanes * lanes
    for k in range(first, first + count):
        prefetch_row(factors, int(columns[min(k + _AHEAD, columns.size - 1)]), rank)
        source, target = int(columns[k]) * rank, (k - first) * step
        for position in range(0, whole, lanes):
            move_vector(factors, source + position, panel, target + position)
        for position in range(whole, rank):
            panel[target + position] = factors[source + position]


@emitted()
def prefetch_row(builder: Any, array: Emitter, row: Value, rank: Value) -> None:
    """Ask for all cache lines of one row of a flat matrix, the last one too where rows do not begin with a line."""
    first, per_line = builder.mul(row, rank), int64(_LINE_BYTES * 8 // array.bits)
    with counting(builder, builder.udiv(rank, per_line)) as loop:
        _ask_for(array, builder.add(first, builder.mul(loop.index, per_line)))
    _ask_for(array, builder.add(first, builder.sub(rank, int64(1))))


@emitted()
def prefetch(builder: Any, array: Emitter, place: Value) -> None:
    """Ask for the cache line that holds one element."""
    _ask_for(array, place)


def _ask_for(array: Emitter, place: Value) -> None:
    byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
    address = array.builder.bitcast(array.builder.gep(array.base, [place]), byte_pointer)
    read, keep, data = int32(0), int32(3), int32(1)
    call(array.builder, "llvm.prefetch.p0i8", kind, [address, read, keep, data])


@emitted()
def move_vector(builder: Any, source: Emitter, source_at: Value, target: Emitter, target_at: Value) -> None:
    """Copy one vector between flat arrays of one type."""
    target.store(source.load(source_at), target_at)


# A tile of ROWS x 3 vectors fills the registers: 24 of 32 with AVX-512, 12 of 16 without.
ROWS: Final = 8 if HAS_WIDE_VECTORS else 4


@compiled()
def add_outer_products(
    left: Flat, right: Flat, step: int, count: int, target: Flat, size: int, target_step: int
) -> None:
    """Add sum_k left[k]^T right[k] to the upper triangle of ``target`` (and to some entries below it).

    Args:
        left: flat panel, row k begins at k step.
        right: the same; the same array for a plain sum of squares.
        step: distance of the panels' rows.
        count: rows to sum over.
        target: flat matrix with rows ``target_step`` apart.
        size: rows and columns of the target, a multiple of the lanes.
        target_step: distance of the target's rows.
    """
    lanes = lanes_of(target)
    for row in range(0, size, ROWS):
        column = row // lanes * lanes
        vectors = (size - column) // lanes
        while vectors > 0:
            # Tiles of a row come out even: 4 = 2 + 2, 5 = 3 + 2, 7 = 3 + 2 + 2.
            tiles = (vectors + 2) // 3
            width = (vectors + tiles - 1) // tiles
            place = row * target_step + column
            if width == 3:
                add_tile(left, row, step, right, column, step, count, target, place, target_step, ROWS, 3)
            elif width == 2:
                add_tile(left, row, step, right, column, step, count, target, place, target_step, ROWS, 2)
            else:
                add_tile(left, row, step, right, column, step, count, target, place, target_step, ROWS, 1)
            column += width * lanes
            vectors -= width


@compiled()
def add_products(
    scalars: Flat, first: int, panel: Flat, step: int, count: int, target: Flat, size: int
) -> None:
    """Add sum_k scalars[first + k] panel[k] to the vector ``target`` of length ``size``."""
    lanes = lanes_of(target)
    column = 0
    while column + 4 * lanes <= size:
        add_tile(scalars, first, 1, panel, column, step, count, target, column, 0, 1, 4)
        column += 4 * lanes
    while column < size:
        add_tile(scalars, first, 1, panel, column, step, count, target, column, 0, 1, 1)
        column += lanes


@emitted()
def add_tile(
    builder: Any,
    left: Emitter,
    left_at: Value,
    left_step: Value,
    right: Emitter,
    right_at: Value,
    right_step: Value,
    count: Value,
    target: Emitter,
    target_at: Value,
    target_step: Value,
    rows: int,
    vectors: int,
) -> None:
    """Add sum_k left[k, 0:rows]^T right[k, 0:vectors * lanes] to a tile of ``target``, k = 0..count - 1.

    Row k of ``left`` begins at ``left_at + k left_step`` and so on.
    """
    tile = [(row, vector) for row in range(rows) for vector in range(vectors)]
    places = [
        builder.add(target.place(target_step, int64(row), 0, target_at), int64(vector * target.lanes))
        for row, vector in tile
    ]
    sums = Registers(builder, [target.load(place) for place in places])
    with counting(builder, count) as loop:
        left_row = left.place(left_step, loop.index, 0, left_at)
        right_row = right.place(right_step, loop.index, 0, right_at)
        columns = [
            right.load(builder.add(right_row, int64(vector * target.lanes))) for vector in range(vectors)
        ]
        splats = [left.load_splat(builder.add(left_row, int64(row))) for row in range(rows)]
        for number, (row, vector) in enumerate(tile):
            sums[number] = target.multiply_add(splats[row], columns[vector], sums[number])
    for place, value in zip(places, sums.values(), strict=True):
        target.store(value, place)
