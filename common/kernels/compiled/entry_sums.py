"""Sums over entries as compiled loops."""

from math import sqrt

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiling import compiled, reading, writing


@compiled(
    *(reading("int32", 1), reading("float32", 1), reading("float32", 1), writing("float32", 1)),
)
def subtract_levels(items: IndexArray, values: Float32Array, levels: Float32Array, out: Float32Array) -> None:
    """Fill ``out`` (n_entries,); arguments as in ``less_levels``."""
    for k in range(items.size):
        out[k] = values[k] - levels[items[k]]


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1)),
    *(reading("float64", 1), writing("float64", 1)),
)
def add_by_row(
    indptr: IntArray, items: IndexArray, values: Float32Array, levels: FloatArray, out: FloatArray
) -> None:
    """Fill ``out`` (n_rows,); arguments as in ``sums_by_row``."""
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += np.float64(values[k]) - levels[items[k]]
        out[row] = total


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1)),
    *(reading("float64", 1), writing("float64", 1)),
)
def add_by_item(
    indptr: IntArray, items: IndexArray, values: Float32Array, levels: FloatArray, out: FloatArray
) -> None:
    """Add to ``out`` (n_items,), which holds zeros; arguments as in ``sums_by_item``."""
    for row in range(indptr.size - 1):
        level = levels[row]
        for k in range(indptr[row], indptr[row + 1]):
            out[items[k]] += np.float64(values[k]) - level


@compiled(
    *(reading("int64", 1), reading("float64", 1), reading("float64", 1), writing("float64", 1)),
)
def fill_norms(indptr: IntArray, weights: FloatArray, values: FloatArray, out: FloatArray) -> None:
    """Fill ``out`` (n_rows,); arguments as in ``norms_by_row``."""
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            part = weights[k] * values[k]
            total += part * part
        out[row] = sqrt(total)
