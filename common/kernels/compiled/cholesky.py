"""Cholesky factor and solve of one small matrix, block by block in registers.

Blocks are as high as a vector is wide. With A = R^T R (R upper triangular) every diagonal block R_oo is kept as
W_o = (R_oo^T)^-1, which turns each triangular solve into products.
"""

from typing import Any, Final

import numpy as np

from fedboard.common.kernels.compiled.panels import Flat, lanes_of
from fedboard.common.kernels.compiled.vectors import Emitter, Registers, Value, counting, emitted, int64
from fedboard.common.kernels.compiling import compiled

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


@emitted()
def _factor_diagonal_block(
    builder: Any, matrix: Emitter, step: Value, inverses: Emitter, block: Value
) -> None:
    """W of the block on the diagonal, by eliminating in [block | identity]; square roots off the critical path."""
    lanes = matrix.lanes
    left = _reduced_block(matrix, step, block, block)
    right = [matrix.constant([float(lane == row) for lane in range(lanes)]) for row in range(lanes)]
    for pivot in range(lanes):
        reciprocal = builder.fdiv(matrix.scalar(1.0), matrix.lane(left[pivot], pivot))
        scaled = builder.fmul(right[pivot], matrix.splat(matrix.square_root(reciprocal)))
        inverses.store(scaled, inverses.place(int64(lanes), block, pivot, int64(0)))
        reciprocals = matrix.splat(reciprocal)
        for row in range(pivot + 1, lanes):
            multiple = builder.fmul(matrix.lane_splat(left[pivot], row), reciprocals)
            left[row] = matrix.multiply_subtract(multiple, left[pivot], left[row])
            right[row] = matrix.multiply_subtract(multiple, right[pivot], right[row])


@emitted()
def _factor_block(
    builder: Any, matrix: Emitter, step: Value, inverses: Emitter, block: Value, column: Value
) -> None:
    """One block of R right of the diagonal: W times what is left of A after the block rows above."""
    rows = _reduced_block(matrix, step, block, column)
    for row in range(matrix.lanes):
        total = matrix.zero()
        for term in range(row + 1):
            place = inverses.place(int64(matrix.lanes), block, row, int64(term))
            total = matrix.multiply_add(inverses.load_splat(place), rows[term], total)
        matrix.store(total, matrix.place(step, block, row, column))


def _reduced_block(matrix: Emitter, step: Value, block: Value, column: Value) -> list[Value]:
    """One block of A minus R^T R over the block rows above, in registers."""
    builder, lanes = matrix.builder, matrix.lanes
    rows = Registers(builder, [matrix.load(matrix.place(step, block, row, column)) for row in range(lanes)])
    with counting(builder, block) as loop:
        vector = matrix.load(matrix.place(step, loop.index, 0, column))
        for row in range(lanes):
            scalar = matrix.place(step, loop.index, 0, builder.add(block, int64(row)))
            rows[row] = matrix.multiply_subtract(vector, matrix.load_splat(scalar), rows[row])
    return rows.values()


@emitted()
def _substitute_forward(
    builder: Any, matrix: Emitter, step: Value, inverses: Emitter, vector: Emitter, block: Value
) -> None:
    """One block of R^T y = b: y_o = W (b_o - sum over the block rows above of R^T y)."""
    lanes = matrix.lanes
    sums = Registers(builder, [matrix.zero()] * _CHAINS)
    with counting(builder, builder.udiv(block, int64(_CHAINS))) as loop:
        group = builder.mul(loop.index, int64(_CHAINS))
        for chain in range(_CHAINS):
            known = vector.load_splat(builder.add(group, int64(chain)))
            row = matrix.load(matrix.place(step, group, chain, block))
            sums[chain] = matrix.multiply_add(known, row, sums[chain])
    rest = builder.fsub(vector.load(block), matrix.total(sums.values()))
    rows = [inverses.load(inverses.place(int64(lanes), block, row, int64(0))) for row in range(lanes)]
    vector.store(matrix.sum_each([builder.fmul(row, rest) for row in rows]), block)


@emitted()
def _substitute_backward(
    builder: Any, matrix: Emitter, step: Value, inverses: Emitter, vector: Emitter, block: Value, size: Value
) -> None:
    """One block of R x = y: x_o = W^T (y_o - sum over the blocks to the right of R x)."""
    lanes = matrix.lanes
    sums = Registers(builder, [matrix.zero()] * lanes)
    right = builder.add(block, int64(lanes))
    with counting(builder, builder.udiv(builder.sub(size, right), int64(lanes))) as loop:
        column = builder.add(right, builder.mul(loop.index, int64(lanes)))
        known = vector.load(column)
        for row in range(lanes):
            values = matrix.load(matrix.place(step, block, row, column))
            sums[row] = matrix.multiply_add(values, known, sums[row])
    rest = builder.fsub(vector.load(block), matrix.sum_each(sums.values()))
    chains = [matrix.zero()] * _CHAINS
    for row in range(lanes):
        values = inverses.load(inverses.place(int64(lanes), block, row, int64(0)))
        chain = row % _CHAINS
        chains[chain] = matrix.multiply_add(matrix.lane_splat(rest, row), values, chains[chain])
    vector.store(matrix.total(chains), block)
