"""Symmetric matrices to tridiagonal form by reflections, without forming the orthogonal matrix."""

from math import sqrt
from typing import Any, Final

from fedboard.common.arrays import FloatArray
from fedboard.common.kernels.compiled.panels import lanes_of
from fedboard.common.kernels.compiled.vectors import (
    Emitter,
    Registers,
    Value,
    counting,
    emitted,
    inner_product,
    int64,
)
from fedboard.common.kernels.compiling import compiled

# Rows per pass over the vectors that update them.
ROWS: Final = 4

# Below this a reflection has nothing to do.
_TINY: Final = 1e-280


@emitted()
def combine(
    builder: Any,
    target: Emitter,
    target_at: Value,
    left: Emitter,
    left_at: Value,
    left_scale: Value,
    right: Emitter,
    right_at: Value,
    right_scale: Value,
    count: Value,
) -> None:
    """Set ``count`` elements (a multiple of the lanes) of a flat array to left_scale left + right_scale right."""
    left_scales, right_scales = target.splat(left_scale), target.splat(right_scale)
    with counting(builder, builder.udiv(count, int64(target.lanes))) as loop:
        offset = builder.mul(loop.index, int64(target.lanes))
        scaled = builder.fmul(left_scales, left.load(builder.add(left_at, offset)))
        value = target.multiply_add(right_scales, right.load(builder.add(right_at, offset)), scaled)
        target.store(value, builder.add(target_at, offset))


@emitted()
def update_and_multiply(
    builder: Any,
    matrix: Emitter,
    step: Value,
    row: Value,
    column: Value,
    size: Value,
    old: Emitter,
    old_at: Value,
    partner: Emitter,
    new: Emitter,
    new_at: Value,
    product: Emitter,
) -> None:
    """Rows row..row + ROWS - 1: A -= partner old^T + old partner^T, then product = A new; one pass over A.

    Columns ``column:size`` only; both are multiples of the lanes.
    """
    rows = [builder.add(row, int64(offset)) for offset in range(ROWS)]
    old_splats = [old.load_splat(builder.add(old_at, place)) for place in rows]
    partner_splats = [partner.load_splat(place) for place in rows]
    sums = Registers(builder, [matrix.zero()] * ROWS)
    with counting(builder, builder.udiv(builder.sub(size, column), int64(matrix.lanes))) as loop:
        at = builder.add(column, builder.mul(loop.index, int64(matrix.lanes)))
        old_part, partner_part = old.load(builder.add(old_at, at)), partner.load(at)
        new_part = new.load(builder.add(new_at, at))
        for offset in range(ROWS):
            place = matrix.place(step, row, offset, at)
            value = matrix.multiply_subtract(old_splats[offset], partner_part, matrix.load(place))
            value = matrix.multiply_subtract(partner_splats[offset], old_part, value)
            matrix.store(value, place)
            sums[offset] = matrix.multiply_add(value, new_part, sums[offset])
    for place, value in zip(rows, sums.values(), strict=True):
        builder.store(matrix.sum_lanes(value), builder.gep(product.base, [place]))


@compiled()
def _reflect(reflectors: FloatArray, new: int, k: int, first: int, size: int) -> tuple[float, float]:
    """Turn x, stored at row k from column k + 1 on, into u = x - alpha e_1; returns alpha and 2 / |u|^2."""
    square = inner_product(reflectors, new + first, reflectors, new + first, size - first)
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
        along = 0.5 * scale * scale * inner_product(product, first, reflectors, new + first, size - first)
        turned = scale * inner_product(vector, first, reflectors, new + first, size - first)
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
        turned = scales[k] * inner_product(vector, first, reflectors, row + first, size - first)
        combine(vector, first, vector, first, 1.0, reflectors, row + first, -turned, size - first)
