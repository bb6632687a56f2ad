"""Cholesky factor and solve of one small matrix, as loops along rows."""

from math import sqrt

from fedboard.common.arrays import FloatArray
from fedboard.common.kernels.compiling import compiled


@compiled()
def solve_positive(matrix: FloatArray, vector: FloatArray) -> None:
    """Overwrite ``vector`` with matrix^-1 vector; the upper triangle of ``matrix`` becomes R, R^T R = matrix.

    A matrix that is not positive definite leaves NaN in ``vector``.
    """
    rank = vector.size
    for pivot in range(rank):
        scale = 1.0 / sqrt(matrix[pivot, pivot])
        for column in range(pivot, rank):
            matrix[pivot, column] *= scale
        vector[pivot] *= scale
        for row in range(pivot + 1, rank):
            factor = matrix[pivot, row]
            vector[row] -= factor * vector[pivot]
            for column in range(row, rank):
                matrix[row, column] -= factor * matrix[pivot, column]
    for row in range(rank - 1, -1, -1):
        rest = vector[row]
        for column in range(row + 1, rank):
            rest -= matrix[row, column] * vector[column]
        vector[row] = rest / matrix[row, row]
