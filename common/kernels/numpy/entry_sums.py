"""Sums over entries in numpy: ``bincount`` adds them one after the other."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray


def subtract_levels(items: IndexArray, values: Float32Array, levels: Float32Array, out: Float32Array) -> None:
    """Fill ``out`` (n_entries,); arguments as in ``less_levels``."""
    np.subtract(values, levels.take(items), out=out)


def add_by_row(
    indptr: IntArray, items: IndexArray, values: Float32Array, levels: FloatArray, out: FloatArray
) -> None:
    """Fill ``out`` (n_rows,); arguments as in ``sums_by_row``."""
    out[:] = np.bincount(_rows(indptr), weights=values - levels[items], minlength=out.size)


def add_by_item(
    indptr: IntArray, items: IndexArray, values: Float32Array, levels: FloatArray, out: FloatArray
) -> None:
    """Fill ``out`` (n_items,); arguments as in ``sums_by_item``."""
    left = values - np.repeat(levels, np.diff(indptr))
    out[:] = np.bincount(items, weights=left, minlength=out.size)


def fill_norms(indptr: IntArray, weights: FloatArray, values: FloatArray, out: FloatArray) -> None:
    """Fill ``out`` (n_rows,); arguments as in ``norms_by_row``."""
    squares = np.square(weights * values)
    out[:] = np.sqrt(np.bincount(_rows(indptr), weights=squares, minlength=out.size))


def _rows(indptr: IntArray) -> IntArray:
    """Row number of each entry, int64, as ``bincount`` takes it without a copy."""
    return np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
