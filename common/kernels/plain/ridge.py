"""Ridge regressions as compiled loops, summed in float64."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing
from fedboard.common.kernels.plain.cholesky import solve_positive
from fedboard.common.kernels.plain.copying import copy_matrix, copy_vector


@compiled()
def _add_entry(factor: FloatArray, target: float, system: FloatArray, moment: FloatArray) -> None:
    """Add x x^T (upper triangle) to ``system`` and target x to ``moment``."""
    rank = moment.size
    for row in range(rank):
        moment[row] += target * factor[row]
        own, others = system[row, row:], factor[row:]
        for column in range(rank - row):
            own[column] += factor[row] * others[column]


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2)),
    *(reading("float32", 1), reading("float64", 2), INTEGER, INTEGER, writing("float32", 2)),
)
def solve_rows(
    indptr: IntArray,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridge: Float32Array,
    gram: FloatArray,
    start: int,
    stop: int,
    out: Float32Array,
) -> None:
    """Fill ``out[start:stop]``; arguments as in ``solve_ridge``."""
    rank = factors.shape[1]
    system, moment, factor = np.empty((rank, rank)), np.empty(rank), np.empty(rank)
    for row in range(start, stop):
        copy_matrix(gram, system)
        moment[:] = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            copy_vector(factors[columns[k]], factor)
            _add_entry(factor, float(targets[k]), system, moment)
        for diagonal in range(rank):
            system[diagonal, diagonal] += np.float64(ridge[row])
        solve_positive(system, moment)
        for position in range(rank):
            out[row, position] = np.float32(moment[position])
