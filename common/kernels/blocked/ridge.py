"""Ridge regressions in float32: gathered panels, register-blocked sums, blocked Cholesky."""

from typing import Final

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.blocked.cholesky import factor, substitute
from fedboard.common.kernels.blocked.panels import gather
from fedboard.common.kernels.blocked.tiles import add_outer_products, add_products, lanes_of
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing
from fedboard.common.kernels.plain import ridge as plain

# The panel should leave half of a first-level cache of 48 KB to the sums.
_PANEL_ELEMENTS: Final = 6 * 1024


@compiled()
def _add_entries(
    first: int,
    last: int,
    columns: IndexArray,
    targets: Float32Array,
    factors: Float32Array,
    panel: Float32Array,
    system: Float32Array,
    moment: Float32Array,
) -> None:
    """Add sum x x^T to ``system`` and sum t x to ``moment`` over the entries first:last, in even chunks."""
    rank, size = factors.shape[1], moment.size
    chunks = (last - first + panel.size // size - 1) // (panel.size // size)
    while chunks > 0:
        count = (last - first + chunks - 1) // chunks
        gather(factors.reshape(-1), rank, columns, first, count, panel, size)
        add_outer_products(panel, panel, size, count, system, size, size)
        add_products(targets, first, panel, size, count, moment, size)
        first += count
        chunks -= 1


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2)),
    *(reading("float32", 1), reading("float64", 2), INTEGER, INTEGER, writing("float32", 2)),
)
def _solve_rows(
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
    """As ``solve_rows``; a row that cannot be factored becomes NaN."""
    rank, lanes = factors.shape[1], lanes_of(factors)
    size = (rank + lanes - 1) // lanes * lanes
    panel = np.zeros(max(8, _PANEL_ELEMENTS // size) * size, np.float32)
    empty, moment = np.zeros(size * size, np.float32), np.empty(size, np.float32)
    system, inverses = np.empty(size * size, np.float32), np.empty(size * lanes, np.float32)
    for row in range(rank):
        for column in range(rank):
            empty[row * size + column] = gram[row, column]
    for row in range(start, stop):
        system[:] = empty
        system[:: size + 1] += ridge[row]
        moment[:] = 0.0
        _add_entries(indptr[row], indptr[row + 1], columns, targets, factors, panel, system, moment)
        solved = factor(system, size, size, inverses)
        substitute(system, size, size, inverses, moment)
        for position in range(rank):
            out[row, position] = moment[position] if solved else np.nan


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
    """Fill ``out[start:stop]``; arguments as in ``solve_ridge``.

    A system that float32 cannot factor (its condition number exceeds about 1e7) is solved again in float64.
    """
    _solve_rows(indptr, columns, targets, factors, ridge, gram, start, stop, out)
    failed = np.flatnonzero(~np.isfinite(out[start:stop, 0])) + start
    for row in failed.tolist():
        plain.solve_rows(indptr, columns, targets, factors, ridge, gram, row, row + 1, out)


__all__ = ["solve_rows"]
