"""Symmetric matrices to tridiagonal form by reflections, without forming the orthogonal matrix."""

from math import sqrt
from typing import Any, Final

from numba import types

from fedboard.common.arrays import FloatArray
from fedboard.common.kernels.compiled.tiles import lanes_of
from fedboard.common.kernels.compiled.vectors import Emitter, Registers, counting, int64
from fedboard.common.kernels.compiling import compiled, emitted

# Rows per pass over the vectors that update them.
ROWS: Final = 4

# Below this a reflection has nothing to do.
_TINY: Final = 1e-280


@emitted
def dot(typing_context: Any, left: Any, left_start: Any, right: Any, right_start: Any, count: Any) -> Any:
    """Inner product of ``count`` elements (a multiple of the lanes) of two flat arrays."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = Emitter(context, builder, left, arguments[0])
        second = Emitter(context, builder, right, arguments[2])
        sums = Registers(builder, [first.zero()])
        with counting(builder, builder.udiv(arguments[4], int64(first.lanes))) as loop:
            offset = builder.mul(loop.index, int64(first.lanes))
            value = first.load(builder.add(arguments[1], offset))
            sums[0] = first.multiply_add(value, second.load(builder.add(arguments[3], offset)), sums[0])
        return first.sum_lanes(sums[0])

    return left.dtype(left, types.int64, right, types.int64, types.int64), emit


@emitted
def combine(
    typing_context: Any,
    target: Any,
    target_start: Any,
    left: Any,
    left_start: Any,
    left_scale: Any,
    right: Any,
    right_start: Any,
    right_scale: Any,
    count: Any,
) -> Any:
    """Set ``count`` elements (a multiple of the lanes) of a flat array to left_scale left + right_scale right."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, target_at, _, left_at, left_by, _, right_at, right_by, number = arguments
        out = Emitter(context, builder, target, arguments[0])
        first = Emitter(context, builder, left, arguments[2])
        second = Emitter(context, builder, right, arguments[5])
        scales = out.splat(left_by), out.splat(right_by)
        with counting(builder, builder.udiv(number, int64(out.lanes))) as loop:
            offset = builder.mul(loop.index, int64(out.lanes))
            scaled = builder.fmul(scales[0], first.load(builder.add(left_at, offset)))
            value = out.multiply_add(scales[1], second.load(builder.add(right_at, offset)), scaled)
            out.store(value, builder.add(target_at, offset))
        return context.get_dummy_value()

    number = target.dtype
    places = (types.int64, left, types.int64, number, right, types.int64, number, types.int64)
    return types.void(target, *places), emit


@emitted
def update_and_multiply(
    typing_context: Any,
    matrix: Any,
    step: Any,
    row: Any,
    column: Any,
    size: Any,
    old: Any,
    old_start: Any,
    partner: Any,
    new: Any,
    new_start: Any,
    product: Any,
) -> Any:
    """Rows row..row + ROWS - 1: A -= partner old^T + old partner^T, then product = A new; one pass over A.

    Columns ``column:size`` only; both are multiples of the lanes.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, distance, first_row, first_column, end, _, old_at, _, _, new_at, _ = arguments
        values = Emitter(context, builder, matrix, arguments[0])
        old_vector = Emitter(context, builder, old, arguments[5])
        partner_vector = Emitter(context, builder, partner, arguments[7])
        new_vector = Emitter(context, builder, new, arguments[8])
        rows = [builder.add(first_row, int64(offset)) for offset in range(ROWS)]
        old_splats = [old_vector.load_splat(builder.add(old_at, place)) for place in rows]
        partner_splats = [partner_vector.load_splat(place) for place in rows]
        sums = Registers(builder, [values.zero()] * ROWS)
        with counting(builder, builder.udiv(builder.sub(end, first_column), int64(values.lanes))) as loop:
            at = builder.add(first_column, builder.mul(loop.index, int64(values.lanes)))
            old_part = old_vector.load(builder.add(old_at, at))
            partner_part = partner_vector.load(at)
            new_part = new_vector.load(builder.add(new_at, at))
            for offset in range(ROWS):
                place = values.place(distance, first_row, offset, at)
                value = values.multiply_subtract(old_splats[offset], partner_part, values.load(place))
                value = values.multiply_subtract(partner_splats[offset], old_part, value)
                values.store(value, place)
                sums[offset] = values.multiply_add(value, new_part, sums[offset])
        out = Emitter(context, builder, product, arguments[10])
        for place, value in zip(rows, sums.values(), strict=True):
            builder.store(values.sum_lanes(value), builder.gep(out.base, [place]))
        return context.get_dummy_value()

    places = (types.int64,) * 4
    return types.void(matrix, *places, old, types.int64, partner, new, types.int64, product), emit


@compiled()
def _reflect(reflectors: FloatArray, new: int, k: int, first: int, size: int) -> tuple[float, float]:
    """Turn x, stored at row k from column k + 1 on, into u = x - alpha e_1; returns alpha and 2 / |u|^2."""
    square = dot(reflectors, new + first, reflectors, new + first, size - first)
    head = reflectors[new + k + 1]
    alpha = -sqrt(square) if head > 0.0 else sqrt(square)
    reflectors[new + k + 1] = head - alpha
    half = square - alpha * head
    return alpha, (1.0 / half if half > _TINY else 0.0)


@compiled()
def tridiagonalise(
    matrix: FloatArray,
    rank: int,
    size: int,
    vector: FloatArray,
    diagonal: FloatArray,
    beside: FloatArray,
    reflectors: FloatArray,
    scales: FloatArray,
    partner: FloatArray,
    product: FloatArray,
) -> None:
    """Find T = Q^T A Q tridiagonal and overwrite ``vector`` with Q^T vector.

    Step k takes H_k = I - t_k u_k u_k^T, so that H_k A H_k = A - u w^T - w u^T with
    w = t A u - (t^2 / 2) (u^T A u) u. This update waits until the next step's product reads the matrix anyway.

    Args:
        matrix: flat, ``size`` rows of ``size``, both triangles, zero beyond ``rank``; destroyed.
        rank: rows and columns in use, >= 1.
        size: ``rank`` rounded up to a multiple of the lanes.
        vector: shape (size,), zero beyond ``rank``.
        diagonal: shape (rank,), becomes T's diagonal.
        beside: shape (rank,), becomes the entries beside it; the last one is not used.
        reflectors: shape (size * size,), zero before the first call; row k becomes u_k.
        scales: shape (rank,), becomes t_k.
        partner: shape (size,), w.
        product: shape (size,), A u.
    """
    lanes = lanes_of(matrix)
    partner[:] = 0.0
    old = (rank - 1) * size  # the last row of ``reflectors`` stays zero
    for k in range(rank - 2):
        new, first = k * size, (k + 1) // lanes * lanes
        begin = k // lanes * lanes
        row, width = new + begin, size - begin
        combine(reflectors, row, matrix, row, 1.0, partner, begin, -reflectors[old + k], width)
        combine(reflectors, row, reflectors, row, 1.0, reflectors, old + begin, -partner[k], width)
        diagonal[k] = reflectors[new + k]
        for place in range(new + begin, new + k + 1):
            reflectors[place] = 0.0
        beside[k], scales[k] = _reflect(reflectors, new, k, first, size)
        for row in range((k + 1) // ROWS * ROWS, size, ROWS):
            update_and_multiply(
                matrix, size, row, first, size, reflectors, old, partner, reflectors, new, product
            )
        for place in range(first, k + 1):
            product[place] = 0.0
        scale = scales[k]
        along = 0.5 * scale * scale * dot(product, first, reflectors, new + first, size - first)
        turned = scale * dot(vector, first, reflectors, new + first, size - first)
        combine(partner, first, product, first, scale, reflectors, new + first, -along, size - first)
        combine(vector, first, vector, first, 1.0, reflectors, new + first, -turned, size - first)
        old = new
    for row in range(max(0, rank - 2), rank):
        diagonal[row] = matrix[row * size + row] - 2.0 * reflectors[old + row] * partner[row]
    if rank > 1:
        row, column = rank - 2, rank - 1
        crossed = reflectors[old + row] * partner[column] + reflectors[old + column] * partner[row]
        beside[row] = matrix[row * size + column] - crossed


@compiled()
def rotate_back(vector: FloatArray, rank: int, size: int, reflectors: FloatArray, scales: FloatArray) -> None:
    """Overwrite ``vector`` with Q vector."""
    lanes = lanes_of(vector)
    for k in range(rank - 3, -1, -1):
        row, first = k * size, (k + 1) // lanes * lanes
        turned = scales[k] * dot(vector, first, reflectors, row + first, size - first)
        combine(vector, first, vector, first, 1.0, reflectors, row + first, -turned, size - first)
