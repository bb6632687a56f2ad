"""Leave-one-out errors as compiled loops, summed in float64."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiling import INTEGER, REAL, compiled, reading, writing
from fedboard.common.kernels.plain.cholesky import solve_positive
from fedboard.common.kernels.plain.copying import copy_matrix, copy_vector


@compiled()
def _add_entry(factor: FloatArray, target: float, system: FloatArray, moment: FloatArray) -> None:
    """Add x x^T (upper triangle) to ``system`` and target x to ``moment``."""
    width = moment.size
    for row in range(width):
        moment[row] += target * factor[row]
        for column in range(row, width):
            system[row, column] += factor[row] * factor[column]


@compiled()
def _load(factors: Float32Array, item: int, factor: FloatArray) -> None:
    """(1, u_i) in float64."""
    factor[0] = 1.0
    for coordinate in range(1, factor.size):
        factor[coordinate] = np.float64(factors[item, coordinate - 1])


@compiled()
def _squared_error(factor: FloatArray, target: float, root: FloatArray, own: FloatArray, width: int) -> float:
    """Of one rating left out: its residual over 1 - x^T (R^T R)^-1 x, squared; of the first ``width`` numbers."""
    residual, leverage = target, 0.0
    half = np.empty(width)
    for row in range(width):
        residual -= factor[row] * own[row]
        rest = factor[row]
        for column in range(row):
            rest -= root[column, row] * half[column]
        half[row] = rest / root[row, row]
        leverage += half[row] * half[row]
    residual /= 1.0 - leverage
    return residual * residual


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2)),
    *(reading("float64", 1), reading("float64", 1), REAL, INTEGER, writing("float64", 2)),
)
def errors_of_rows(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridges: FloatArray,
    growth: FloatArray,
    bias_ridge: float,
    most: int,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``left_out_errors``."""
    width = 1 + factors.shape[1]
    system, moment, factor = np.empty((width, width)), np.empty(width), np.empty(width)
    root, own = np.empty((width, width)), np.empty(width)
    for row in range(indptr.size - 1):
        first, last = indptr[row], indptr[row + 1]
        if last - first < 2:
            continue
        system[:, :] = 0.0
        moment[:] = 0.0
        for k in range(first, last):
            _load(factors, items[k], factor)
            _add_entry(factor, np.float64(targets[k]), system, moment)
        step = -(-(last - first) // most)
        seen = 0
        alone = system[0, 0] + growth[row] * bias_ridge
        without = 0.0
        for k in range(first, last, step):
            seen += 1
            error = (np.float64(targets[k]) - moment[0] / alone) / (1.0 - 1.0 / alone)
            without += error * error
        for candidate in range(ridges.size):
            copy_matrix(system, root)
            copy_vector(moment, own)
            root[0, 0] = alone
            for coordinate in range(1, width):
                root[coordinate, coordinate] += growth[row] * ridges[candidate]
            solve_positive(root, own)
            total = 0.0
            for k in range(first, last, step):
                _load(factors, items[k], factor)
                total += _squared_error(factor, np.float64(targets[k]), root, own, width)
            out[row, candidate] = (total - without) / seen
