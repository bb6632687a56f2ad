"""Sums of outer products, tile by tile in registers: the step that takes most of the time."""

from typing import Any, Final

from numba import types

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.kernels.blocked.vectors import (
    HAS_WIDE_VECTORS,
    Emitter,
    Registers,
    counting,
    lane_count,
)
from fedboard.common.kernels.compiling import emitted, compiled

# A tile of ROWS x 3 vectors fills the registers: 24 of 32 with AVX-512, 12 of 16 without.
ROWS: Final = 8 if HAS_WIDE_VECTORS else 4


@emitted
def lanes_of(typing_context: Any, array: Any) -> Any:
    """Elements of ``array`` in one vector: a constant in compiled code."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.int64, lane_count(array.dtype))

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
    places = (types.int64,) * 2
    signature = types.void(left, *places, right, *places, types.int64, target, *places, rows, vectors)
    n_rows, n_vectors = rows.literal_value, vectors.literal_value

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, left_at, left_by, _, right_at, right_by, n, _, target_at, target_by, _, _ = arguments
        factor_side = Emitter(context, builder, left, arguments[0])
        vector_side = Emitter(context, builder, right, arguments[3])
        out = Emitter(context, builder, target, arguments[7])
        tile = [(r, v) for r in range(n_rows) for v in range(n_vectors)]
        places = [
            builder.add(target_at, builder.add(builder.mul(target_by, types_int(r)), types_int(v * out.lanes)))
            for r, v in tile
        ]
        sums = Registers(out, [out.load(place) for place in places])
        with counting(builder, n) as k:
            row_left = builder.add(left_at, builder.mul(k, left_by))
            row_right = builder.add(right_at, builder.mul(k, right_by))
            columns = [vector_side.load(builder.add(row_right, types_int(v * out.lanes))) for v in range(n_vectors)]
            for r in range(n_rows):
                factor = factor_side.load_splat(builder.add(row_left, types_int(r)))
                for v in range(n_vectors):
                    i = r * n_vectors + v
                    sums[i] = out.multiply_add(factor, columns[v], sums[i])
        for place, value in zip(places, sums.values(), strict=True):
            out.store(value, place)
        return context.get_dummy_value()

    return signature, emit

from llvmlite import ir
def types_int(x): return ir.Constant(ir.IntType(64), x)

@compiled()
def add_outer_products(left, right, start, step, count, target, size, target_step):
    lanes = lanes_of(target)
    for row in range(0, size, ROWS):
        column = row // lanes * lanes
        vectors = (size - column) // lanes
        pieces = (vectors + 2) // 3
        while pieces > 0:
            width = (vectors + pieces - 1) // pieces
            a, b, c = start + row, start + column, row * target_step + column
            if width == 3:
                add_tile(left, a, step, right, b, step, count, target, c, target_step, ROWS, 3)
            elif width == 2:
                add_tile(left, a, step, right, b, step, count, target, c, target_step, ROWS, 2)
            else:
                add_tile(left, a, step, right, b, step, count, target, c, target_step, ROWS, 1)
            column += width * lanes
            vectors -= width
            pieces -= 1
