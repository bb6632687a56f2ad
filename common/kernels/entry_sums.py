"""Entries of compressed rows less a level of their item, sums of them by row or by item, and of their pairs."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray, ShortArray, ascends
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation


def less_levels(
    items: IndexArray, values: Float32Array, item_levels: Float32Array, *, backend: str
) -> Float32Array:
    """``y_k - b_i`` for each entry k, i its item; in float32.

    **Guarantee**: every backend gives the same bits.

    Args:
        items: int32, shape (n_entries,). Private, as are values.
        values: y: float32, shape (n_entries,).
        item_levels: b: float32, shape (n_items,).
        backend: "numpy" or "compiled".

    Returns:
        float32, shape (n_entries,). Private.

    Raises:
        InputError: arrays that do not fit together, or an item out of range.
    """
    kernel = implementation(backend, "entry_sums")
    items, values = np.ascontiguousarray(items, np.int32), np.ascontiguousarray(values, np.float32)
    levels = np.ascontiguousarray(item_levels, np.float32)
    if items.shape != values.shape:
        raise InputError("items and values must have one number per entry")
    _check_items(items, levels.size)
    left = np.empty(items.size, dtype=np.float32)
    kernel.subtract_levels(items, values, levels, left)
    return left


def sums_by_row(
    indptr: IntArray, items: IndexArray, values: Float32Array, item_levels: FloatArray, *, backend: str
) -> FloatArray:
    """``sum_k (y_k - b_i)`` over the entries k of each row, i the item of k; in float64, in order.

    **Guarantee**: every backend gives the same bits, and a row depends on its own entries alone.

    Args:
        indptr: int64, shape (n_rows + 1,), from 0 to n_entries. Private, as are items and values.
        items: int32, shape (n_entries,).
        values: y: float32, shape (n_entries,).
        item_levels: b: float64, shape (n_items,). Public.
        backend: "numpy" or "compiled".

    Returns:
        float64, shape (n_rows,); 0 for a row without entries.

    Raises:
        InputError: arrays that do not fit together, or an item out of range.
    """
    kernel = implementation(backend, "entry_sums")
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    values, levels = np.ascontiguousarray(values, np.float32), np.ascontiguousarray(item_levels, np.float64)
    _check(indptr, items.shape, values.shape)
    _check_items(items, levels.size)
    sums = np.zeros(indptr.size - 1)
    kernel.add_by_row(indptr, items, values, levels, sums)
    return sums


def sums_by_item(
    indptr: IntArray,
    items: IndexArray,
    values: Float32Array,
    row_levels: FloatArray,
    *,
    n_items: int,
    backend: str,
) -> FloatArray:
    """``sum_k (y_k - c_j)`` over the entries k of each item, j the row of k; in float64, in the order of the rows.

    **Guarantee**: every backend gives the same bits.

    Args:
        indptr: int64, shape (n_rows + 1,), from 0 to n_entries. Private, as are items and values.
        items: int32, shape (n_entries,).
        values: y: float32, shape (n_entries,).
        row_levels: c: float64, shape (n_rows,).
        n_items: size of the catalogue. Public.
        backend: "numpy" or "compiled".

    Returns:
        float64, shape (n_items,); 0 for an item without entries.

    Raises:
        InputError: arrays that do not fit together, or an item out of range.
    """
    kernel = implementation(backend, "entry_sums")
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    values, levels = np.ascontiguousarray(values, np.float32), np.ascontiguousarray(row_levels, np.float64)
    _check(indptr, items.shape, values.shape)
    _check_items(items, n_items)
    if levels.shape != (indptr.size - 1,):
        raise InputError("row_levels must hold one number per row")
    sums = np.zeros(n_items)
    kernel.add_by_item(indptr, items, values, levels, sums)
    return sums


def norms_by_row(indptr: IntArray, weights: FloatArray, values: FloatArray, *, backend: str) -> FloatArray:
    """``sqrt(sum_k (w_k r_k)^2)`` over the entries k of each row; in float64, in order.

    **Guarantee**: every backend gives the same bits, and a row depends on its own entries alone.

    Args:
        indptr: int64, shape (n_rows + 1,), from 0 to n_entries. Private, as are the others.
        weights: w: float64, shape (n_entries,).
        values: r: float64, shape (n_entries,).
        backend: "numpy" or "compiled".

    Returns:
        float64, shape (n_rows,); 0 for a row without entries.

    Raises:
        InputError: arrays that do not fit together.
    """
    kernel = implementation(backend, "entry_sums")
    indptr = np.ascontiguousarray(indptr, np.int64)
    weights, values = np.ascontiguousarray(weights, np.float64), np.ascontiguousarray(values, np.float64)
    _check(indptr, weights.shape, values.shape)
    norms = np.zeros(indptr.size - 1)
    kernel.fill_norms(indptr, weights, values, norms)
    return norms


def pair_sums(
    indptr: IntArray, items: IndexArray, responses: ShortArray, *, n_items: int, backend: str
) -> IntArray:
    """``sum_j r_j r_j^T`` over the rows j, the upper triangle row by row; exact.

    **Guarantee**: every backend gives the same numbers.

    Args:
        indptr: int64, shape (n_rows + 1,), from 0 to n_entries. Private, as are items and responses.
        items: int32, shape (n_entries,).
        responses: r: int16, shape (n_entries,).
        n_items: size of the catalogue. Public.
        backend: "numpy" or "compiled".

    Returns:
        int64, shape (n_items (n_items + 1) / 2,). Private. Exact for fewer than 2^33 rows that hold each item
        once. Memory: that; beside it for "numpy" three times as much, for the others 12 bytes an entry.

    Raises:
        InputError: arrays that do not fit together, or an item out of range.
    """
    kernel = implementation(backend, "pair_sums")
    if n_items < 1 or responses.dtype != np.int16:
        raise InputError(f"n_items must be >= 1 and responses int16; got {n_items} and {responses.dtype}")
    _check_items(items, n_items)
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    _check(indptr, items.shape, responses.shape)
    sums = np.zeros(n_items * (n_items + 1) // 2, dtype=np.int64)
    kernel.add_pairs(indptr, items, np.ascontiguousarray(responses), n_items, sums)
    return sums


def _check(indptr: IntArray, *shapes: tuple[int, ...]) -> None:
    """Refuse arrays that do not fit together. Compiled kernels read without looking: nothing may get past."""
    if indptr.ndim != 1 or indptr.size < 1 or indptr[0] != 0 or not ascends(indptr):
        raise InputError("indptr must ascend from 0 to the number of entries")
    if any(shape != (indptr[-1],) for shape in shapes):
        raise InputError("indptr, and what has one number per entry, do not fit together")


def _check_items(items: IndexArray, n_items: int) -> None:
    if items.size and (items.min() < 0 or items.max() >= n_items):
        raise InputError("items must be numbers of the catalogue")
