"""Ridge regressions one row at a time, in float64, through numpy's solver."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray


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
    identity = np.eye(factors.shape[1])
    for row in range(start, stop):
        entries = slice(indptr[row], indptr[row + 1])
        rated = factors[columns[entries]].astype(np.float64)
        system = rated.T @ rated + float(ridge[row]) * identity + gram
        out[row] = np.linalg.solve(system, rated.T @ targets[entries].astype(np.float64))
