"""Ridge regressions a few rows at a time, in float64, through numpy's solver."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray

_NUMBERS_AT_ONCE = 1 << 14
"""Of all systems that are solved in one call: they stay in a cache."""


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
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, rank * rank))
    for first in range(start, stop, at_once):
        rows = range(first, min(first + at_once, stop))
        systems, sides = np.empty((len(rows), rank, rank)), np.empty((len(rows), rank, 1))
        for place, row in enumerate(rows):
            entries = slice(indptr[row], indptr[row + 1])
            rated = factors[columns[entries]].astype(np.float64)
            systems[place] = rated.T @ rated
            sides[place, :, 0] = rated.T @ targets[entries].astype(np.float64)
        systems += ridge[rows.start : rows.stop, None, None].astype(np.float64) * np.eye(rank)
        systems += gram
        out[rows.start : rows.stop] = np.linalg.solve(systems, sides)[:, :, 0]
