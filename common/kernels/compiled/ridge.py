"""Ridge regressions in float32: gathered panels, register-blocked sums, blocked Cholesky."""

from typing import Final

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiled.cholesky import factor, substitute
from fedboard.common.kernels.compiled.panels import (
    add_outer_products,
    add_products,
    copy_vector,
    gather,
    lanes_of,
)
from fedboard.common.kernels.compiling import BOOLEAN, INTEGER, compiled, reading, writing
from fedboard.common.kernels.numpy import solves as reference

# A panel takes half of a first-level cache of 48 KB and leaves the rest to the sums.
_PANEL_ELEMENTS: Final = 6 * 1024


@compiled()
def _solve_primal(
    first: int,
    last: int,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    panel: Float32Array,
    system: Float32Array,
    inverses: Float32Array,
    solution: Float32Array,
) -> bool:
    """Add sum x x^T over the entries first:last to ``system`` and solve with sum t x, in chunks of even length."""
    rank, size = factors.shape[1], solution.size
    rows = max(8, _PANEL_ELEMENTS // size)
    solution[:] = 0.0
    chunks = (last - first + rows - 1) // rows
    while chunks > 0:
        count = (last - first + chunks - 1) // chunks
        gather(factors.reshape(-1), rank, columns, first, count, panel, size)
        add_outer_products(panel, panel, size, count, system, size, size)
        add_products(targets, first, panel, size, count, solution, size)
        first += count
        chunks -= 1
    solved = factor(system, size, size, inverses)
    substitute(system, size, size, inverses, solution)
    return solved


@compiled()
def _solve_dual(
    first: int,
    count: int,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridge: float,
    panel: Float32Array,
    system: Float32Array,
    inverses: Float32Array,
    solution: Float32Array,
) -> bool:
    """Solve X^T (X X^T + ridge I)^-1 t instead: less work for a row with fewer entries than the rank."""
    rank, size = factors.shape[1], solution.size
    lanes = lanes_of(factors)
    height = (count + lanes - 1) // lanes * lanes
    gather(factors.reshape(-1), rank, columns, first, count, panel, size)
    transposed, coefficients = np.zeros(rank * height, np.float32), np.zeros(height, np.float32)
    for k in range(count):
        coefficients[k] = targets[first + k]
        for position in range(rank):
            transposed[position * height + k] = panel[k * size + position]
    system[: height * height] = 0.0
    system[: height * height : height + 1] = ridge
    add_outer_products(transposed, transposed, height, rank, system, height, height)
    solved = factor(system, height, height, inverses)
    substitute(system, height, height, inverses, coefficients)
    solution[:] = 0.0
    add_products(coefficients, 0, panel, size, count, solution, size)
    return solved


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2)),
    *(reading("float32", 1), reading("float64", 2), BOOLEAN, INTEGER, INTEGER, writing("float32", 2)),
)
def _solve_rows(
    indptr: IntArray,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    ridge: Float32Array,
    gram: FloatArray,
    has_gram: bool,
    start: int,
    stop: int,
    out: Float32Array,
) -> None:
    """As ``solve_rows``; a row that cannot be factored becomes NaN."""
    rank, lanes = factors.shape[1], lanes_of(factors)
    size = (rank + lanes - 1) // lanes * lanes
    dual_limit = 0 if has_gram else 3 * size // 4
    panel = np.zeros(max(_PANEL_ELEMENTS, 8 * size, dual_limit * size), np.float32)
    system, inverses = np.empty(size * size, np.float32), np.empty(size * lanes, np.float32)
    empty, solution = np.zeros(size * size, np.float32), np.empty(size, np.float32)
    for row in range(rank):
        for column in range(rank):
            empty[row * size + column] = gram[row, column]
    for row in range(start, stop):
        first, last = indptr[row], indptr[row + 1]
        if last - first <= dual_limit:
            solved = _solve_dual(
                first,
                last - first,
                columns,
                targets,
                factors,
                ridge[row],
                panel,
                system,
                inverses,
                solution,
            )
        else:
            copy_vector(empty, system)
            for position in range(size):
                system[position * (size + 1)] += ridge[row]
            solved = _solve_primal(first, last, columns, targets, factors, panel, system, inverses, solution)
        for position in range(rank):
            out[row, position] = solution[position] if solved else np.nan


def solve_ridges(
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
    """Fill ``out[start:stop]``; arguments as in ``solve_ridge``.

    NumPy solves a system again in float64 that float32 cannot factor: its condition number exceeds about 1e7.
    """
    has_gram = bool(np.any(gram))
    _solve_rows(indptr, columns, targets, factors, ridge, gram, has_gram, start, stop, out)
    for row in (np.flatnonzero(~np.isfinite(out[start:stop, 0])) + start).tolist():  # hardly ever
        reference.solve_ridges(indptr, columns, targets, factors, ridge, gram, row, row + 1, out)
