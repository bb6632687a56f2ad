"""Leave-one-out errors summed in float64, the candidate ridges side by side in a vector."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiled.ridge_lanes import (
    TOGETHER,
    add_entries,
    left_out_of_some,
    solve_lanes,
    spread_with_ridges,
)
from fedboard.common.kernels.compiled.tiles import lanes_of
from fedboard.common.kernels.compiling import INTEGER, REAL, compiled, reading, writing


@compiled()
def _load(factors: Float32Array, item: int, row: FloatArray) -> None:
    """(1, u_i) in float64; what is behind it stays zero."""
    row[0] = 1.0
    for coordinate in range(factors.shape[1]):
        row[1 + coordinate] = np.float64(factors[item, coordinate])


@compiled()
def _error_alone(
    targets: Float32Array, first: int, last: int, step: int, moment: float, system: float
) -> float:
    """Sum of squared errors without factors, of each ``step``-th of the ratings ``first:last``."""
    total = 0.0
    for k in range(first, last, step):
        error = (np.float64(targets[k]) - moment / system) / (1.0 - 1.0 / system)
        total += error * error
    return total


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
    width, room = 1 + factors.shape[1], most + TOGETHER
    goals = np.zeros(TOGETHER)
    lanes = lanes_of(goals)
    size = (width + lanes - 1) // lanes * lanes
    system, moment = np.empty(width * size), np.empty(size)
    some = np.zeros(TOGETHER * size)
    root, own = np.empty(width * width * lanes), np.empty(width * lanes)
    half, squares = np.empty(TOGETHER * width * lanes), np.empty(room * lanes)
    rated, wanted, pulls = np.zeros(room * width), np.zeros(room), np.empty(lanes)
    for row in range(indptr.size - 1):
        first, last = indptr[row], indptr[row + 1]
        if last - first < 2:
            continue
        system[:] = 0.0
        moment[:] = 0.0
        step, seen, until_next = -(-(last - first) // most), 0, 0
        for begin in range(first, last, TOGETHER):
            here = min(TOGETHER, last - begin)
            for k in range(here):
                own_row = some[k * size : (k + 1) * size]
                _load(factors, items[begin + k], own_row)
                goals[k] = np.float64(targets[begin + k])
                if until_next == 0:  # one that is left out
                    for coordinate in range(width):
                        rated[seen * width + coordinate] = own_row[coordinate]
                    wanted[seen] = goals[k]
                    seen, until_next = seen + 1, step
                until_next -= 1
            some[here * size :] = 0.0
            goals[here:] = 0.0
            add_entries(some, goals, system, moment, width, size)
        alone = system[0] + growth[row] * bias_ridge
        without = _error_alone(targets, first, last, step, moment[0], alone)
        system[0] = alone
        for candidate in range(0, ridges.size, lanes):
            together = min(lanes, ridges.size - candidate)
            for lane in range(lanes):
                pulls[lane] = growth[row] * ridges[candidate + min(lane, together - 1)]
            spread_with_ridges(system, size, width, pulls, root, moment, own)
            solve_lanes(root, own, width, lanes)
            for k in range(0, seen, TOGETHER):
                left_out_of_some(rated, wanted, k, root, own, half, width, squares)
            for lane in range(together):
                total = 0.0
                for k in range(seen):
                    total += squares[k * lanes + lane]
                out[row, candidate + lane] = (total - without) / seen
