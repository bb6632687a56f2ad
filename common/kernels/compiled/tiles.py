"""Sums of outer products, tile by tile in registers: the step that takes most of the time."""

from typing import Any, Final

from numba import types

from fedboard.common.arrays import Float32Array, FloatArray, PairArray
from fedboard.common.kernels.compiled.vectors import (
    HAS_WIDE_VECTORS,
    Emitter,
    Registers,
    counting,
    int64,
    lane_count,
)
from fedboard.common.kernels.compiling import compiled, emitted

# A tile of ROWS x 3 vectors fills the registers: 24 of 32 with AVX-512, 12 of 16 without.
ROWS: Final = 8 if HAS_WIDE_VECTORS else 4

Flat = Float32Array | FloatArray | PairArray
"""A flat array; of pairs every product below is the sum of two (``Emitter``)."""


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
            width = _tile_width(vectors)
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
def _tile_width(vectors: int) -> int:
    """Vectors of the next tile so that the tiles of a row come out even: 4 = 2 + 2, 5 = 3 + 2, 7 = 3 + 2 + 2."""
    tiles = (vectors + 2) // 3
    return (vectors + tiles - 1) // tiles


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


@emitted
def lanes_of(typing_context: Any, array: Any) -> Any:
    """Elements of ``array`` in one vector: a constant in compiled code."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return int64(lane_count(array.dtype))

    return types.int64(array), emit


@emitted
def add_tile(
    typing_context: Any,
    left: Any,
    left_start: Any,
    left_step: Any,
    right: Any,
    right_start: Any,
    right_step: Any,
    count: Any,
    target: Any,
    target_start: Any,
    target_step: Any,
    rows: Any,
    vectors: Any,
) -> Any:
    """Add sum_k left[k, 0:rows]^T right[k, 0:vectors * lanes] to a tile of ``target``, k = 0..count - 1.

    Row k of ``left`` begins at ``left_start + k left_step`` and so on; ``rows`` and ``vectors`` are literals.
    """
    two = (types.int64, types.int64)
    tile = [(row, vector) for row in range(rows.literal_value) for vector in range(vectors.literal_value)]

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, left_at, left_by, _, right_at, right_by, n, _, target_at, target_by, _, _ = arguments
        factors = Emitter(context, builder, left, arguments[0])
        source = Emitter(context, builder, right, arguments[3])
        out = Emitter(context, builder, target, arguments[7])
        places = [
            builder.add(out.place(target_by, int64(row), 0, target_at), int64(vector * out.lanes))
            for row, vector in tile
        ]
        sums = Registers(builder, [out.load(place) for place in places])
        with counting(builder, n) as loop:
            left_row = factors.place(left_by, loop.index, 0, left_at)
            right_row = source.place(right_by, loop.index, 0, right_at)
            columns = [
                source.load(builder.add(right_row, int64(vector * out.lanes)))
                for vector in range(vectors.literal_value)
            ]
            splats = [
                factors.load_splat(builder.add(left_row, int64(row))) for row in range(rows.literal_value)
            ]
            for number, (row, vector) in enumerate(tile):
                sums[number] = out.multiply_add(splats[row], columns[vector], sums[number])
        for place, value in zip(places, sums.values(), strict=True):
            out.store(value, place)
        return context.get_dummy_value()

    return types.void(left, *two, right, *two, types.int64, target, *two, rows, vectors), emit
