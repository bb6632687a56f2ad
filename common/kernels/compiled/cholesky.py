"""Cholesky factor and solve of one small matrix, block by block in registers.

Blocks are as high as a vector is wide. With A = R^T R (R upper triangular) every diagonal block R_oo is kept as
W_o = (R_oo^T)^-1, which turns each triangular solve into products.
"""

from typing import Any, Final

import numpy as np
from numba import types

from fedboard.common.kernels.compiled.tiles import Flat, lanes_of
from fedboard.common.kernels.compiled.vectors import Emitter, Registers, Value, counting, int64
from fedboard.common.kernels.compiling import compiled, emitted

# Sums that run side by side, so that one addition need not wait for the last.
_CHAINS: Final = 4


@compiled()
def factor(matrix: Flat, size: int, step: int, inverses: Flat) -> bool:
    """Factor a symmetric matrix in place; reads the upper triangle.

    Args:
        matrix: flat, rows ``step`` apart; blocks right of the diagonal ones become those of R.
        size: rows and columns, a multiple of the lanes.
        step: distance of the rows.
        inverses: shape (size * lanes,), becomes the W_o, one below the other, rows ``lanes`` apart.

    Returns:
        False if the matrix is not positive definite in this precision; then its contents are useless.
    """
    lanes = lanes_of(matrix)
    for block in range(0, size, lanes):
        _factor_diagonal_block(matrix, step, inverses, block)
        for row in range(lanes):
            # 1 / sqrt(pivot): NaN or infinite where the pivot is not > 0.
            if not 0.0 < inverses[(block + row) * lanes + row] < np.inf:
                return False
        for column in range(block + lanes, size, lanes):
            _factor_block(matrix, step, inverses, block, column)
    return True


@compiled()
def substitute(matrix: Flat, size: int, step: int, inverses: Flat, vector: Flat) -> None:
    """Overwrite ``vector`` with A^-1 vector, from what ``factor`` left behind."""
    lanes = lanes_of(matrix)
    for block in range(0, size, lanes):
        _substitute_forward(matrix, step, inverses, vector, block)
    for block in range(size - lanes, -1, -lanes):
        _substitute_backward(matrix, step, inverses, vector, block, size)


@emitted
def _factor_diagonal_block(typing_context: Any, matrix: Any, step: Any, inverses: Any, block: Any) -> Any:
    """W of the block on the diagonal, by eliminating in [block | identity]; square roots off the critical path."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emitter = Emitter(context, builder, matrix, arguments[0])
        target = Emitter(context, builder, inverses, arguments[2])
        lanes = emitter.lanes
        left = _reduced_block(emitter, arguments[1], arguments[3], arguments[3])
        right = [emitter.constant([float(lane == row) for lane in range(lanes)]) for row in range(lanes)]
        for pivot in range(lanes):
            reciprocal = builder.fdiv(emitter.scalar(1.0), emitter.lane(left[pivot], pivot))
            scaled = builder.fmul(right[pivot], emitter.splat(emitter.square_root(reciprocal)))
            target.store(scaled, target.place(int64(lanes), arguments[3], pivot, int64(0)))
            reciprocals = emitter.splat(reciprocal)
            for row in range(pivot + 1, lanes):
                multiple = builder.fmul(emitter.lane_splat(left[pivot], row), reciprocals)
                left[row] = emitter.multiply_subtract(multiple, left[pivot], left[row])
                right[row] = emitter.multiply_subtract(multiple, right[pivot], right[row])
        return context.get_dummy_value()

    return types.void(matrix, types.int64, inverses, types.int64), emit


@emitted
def _factor_block(typing_context: Any, matrix: Any, step: Any, inverses: Any, block: Any, column: Any) -> Any:
    """One block of R right of the diagonal: W times what is left of A after the block rows above."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, distance, _, block_at, column_at = arguments
        emitter = Emitter(context, builder, matrix, arguments[0])
        source = Emitter(context, builder, inverses, arguments[2])
        rows = _reduced_block(emitter, distance, block_at, column_at)
        for row in range(emitter.lanes):
            total = emitter.zero()
            for term in range(row + 1):
                place = source.place(int64(emitter.lanes), block_at, row, int64(term))
                total = emitter.multiply_add(source.load_splat(place), rows[term], total)
            emitter.store(total, emitter.place(distance, block_at, row, column_at))
        return context.get_dummy_value()

    return types.void(matrix, types.int64, inverses, types.int64, types.int64), emit


def _reduced_block(emitter: Emitter, step: Value, block: Value, column: Value) -> list[Value]:
    """One block of A minus R^T R over the block rows above, in registers."""
    builder, lanes = emitter.builder, emitter.lanes
    rows = Registers(builder, [emitter.load(emitter.place(step, block, row, column)) for row in range(lanes)])
    with counting(builder, block) as loop:
        vector = emitter.load(emitter.place(step, loop.index, 0, column))
        for row in range(lanes):
            scalar = emitter.place(step, loop.index, 0, builder.add(block, int64(row)))
            rows[row] = emitter.multiply_subtract(vector, emitter.load_splat(scalar), rows[row])
    return rows.values()


@emitted
def _substitute_forward(
    typing_context: Any, matrix: Any, step: Any, inverses: Any, vector: Any, block: Any
) -> Any:
    """One block of R^T y = b: y_o = W (b_o - sum over the block rows above of R^T y)."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emitter = Emitter(context, builder, matrix, arguments[0])
        source = Emitter(context, builder, inverses, arguments[2])
        unknown = Emitter(context, builder, vector, arguments[3])
        block_at, lanes = arguments[4], emitter.lanes
        sums = Registers(builder, [emitter.zero()] * _CHAINS)
        with counting(builder, builder.udiv(block_at, int64(_CHAINS))) as loop:
            group = builder.mul(loop.index, int64(_CHAINS))
            for chain in range(_CHAINS):
                known = unknown.load_splat(builder.add(group, int64(chain)))
                row = emitter.load(emitter.place(arguments[1], group, chain, block_at))
                sums[chain] = emitter.multiply_add(known, row, sums[chain])
        rest = builder.fsub(unknown.load(block_at), emitter.total(sums.values()))
        rows = [source.load(source.place(int64(lanes), block_at, row, int64(0))) for row in range(lanes)]
        unknown.store(emitter.sum_each([builder.fmul(row, rest) for row in rows]), block_at)
        return context.get_dummy_value()

    return types.void(matrix, types.int64, inverses, vector, types.int64), emit


@emitted
def _substitute_backward(
    typing_context: Any, matrix: Any, step: Any, inverses: Any, vector: Any, block: Any, size: Any
) -> Any:
    """One block of R x = y: x_o = W^T (y_o - sum over the blocks to the right of R x)."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emitter = Emitter(context, builder, matrix, arguments[0])
        source = Emitter(context, builder, inverses, arguments[2])
        unknown = Emitter(context, builder, vector, arguments[3])
        block_at, lanes = arguments[4], emitter.lanes
        sums = Registers(builder, [emitter.zero()] * lanes)
        right = builder.add(block_at, int64(lanes))
        with counting(builder, builder.udiv(builder.sub(arguments[5], right), int64(lanes))) as loop:
            column = builder.add(right, builder.mul(loop.index, int64(lanes)))
            known = unknown.load(column)
            for row in range(lanes):
                values = emitter.load(emitter.place(arguments[1], block_at, row, column))
                sums[row] = emitter.multiply_add(values, known, sums[row])
        rest = builder.fsub(unknown.load(block_at), emitter.sum_each(sums.values()))
        chains = [emitter.zero()] * _CHAINS
        for row in range(lanes):
            values = source.load(source.place(int64(lanes), block_at, row, int64(0)))
            chain = row % _CHAINS
            chains[chain] = emitter.multiply_add(emitter.lane_splat(rest, row), values, chains[chain])
        unknown.store(emitter.total(chains), block_at)
        return context.get_dummy_value()

    return types.void(matrix, types.int64, inverses, vector, types.int64, types.int64), emit
