"""What is computed row by row, in numpy: sums, norms, residuals, the best items, and which rows break a bound."""

import numpy as np

from fedboard.common.arrays import BoolArray, Float32Array, FloatArray, IndexArray, IntArray, ShortArray


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


def scale_rows(
    indptr: IntArray, items: IndexArray, item_weights: FloatArray, spend_all: int, out: FloatArray
) -> None:
    """Fill ``out`` (n_entries,); arguments as in ``unit_rows``. ``bincount`` adds along the row, in order."""
    counts = np.diff(indptr)
    rows = np.repeat(np.arange(counts.size), counts)
    weights = item_weights[items]
    norms = np.sqrt(np.bincount(rows, weights=weights * weights, minlength=counts.size))
    if not spend_all:
        norms = np.maximum(norms, 1.0)
    np.minimum(weights / norms[rows], 1.0, out=out)


_ENTRIES_AT_ONCE = 1 << 18


def fill_residuals(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    vectors: Float32Array,
    own: Float32Array,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``residuals_of_rows``."""
    rows = np.repeat(np.arange(indptr.size - 1, dtype=np.int32), np.diff(indptr))
    for first in range(0, items.size, _ENTRIES_AT_ONCE):
        part = slice(first, first + _ENTRIES_AT_ONCE)
        mine = own[rows[part]]
        explained = np.einsum("pd,pd->p", vectors[items[part]], mine[:, 1:], dtype=np.float64)
        out[part] = targets[part] - mine[:, 0] - explained


def select(
    scores: Float32Array, exclude_indptr: IntArray, exclude_items: IndexArray, best: IndexArray
) -> None:
    """Fill ``best`` (n, k) from ``scores`` (n, n_items); overwrites the scores of excluded items."""
    rows = np.repeat(np.arange(scores.shape[0]), np.diff(exclude_indptr))
    scores[rows, exclude_items[exclude_indptr[0] : exclude_indptr[-1]]] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, : best.shape[1]]
    candidate = np.take_along_axis(scores, order, axis=1) > -np.inf
    best[:] = -1
    best[:, : order.shape[1]] = np.where(candidate, order, -1)


def mark_broken(
    indptr: IntArray,
    items: IndexArray,
    n_items: int,
    vectors: ShortArray,
    weights: ShortArray,
    responses: ShortArray,
    limits: IntArray,
    split: int,
    out: BoolArray,
) -> None:
    """Fill ``out`` with what ``fedboard.common.contribution_bounding.clipping.check_rows`` says of each row.

    Args:
        indptr: int64, shape (n_rows + 1,), ascending from 0 to n_entries.
        items: int32, shape (n_entries,).
        n_items: size of the catalogue.
        vectors: int16, shape (n_rows, rank); rank 0 where there are none.
        weights: int16, shape (n_entries,), or empty where there are none.
        responses: likewise.
        limits: int64, shape (6,): of a response; of the squares of a vector, of a row's weights, of its responses;
            of ``sum (w r)^2 |v|^2``, high part and low part. Negative where that is not looked at.
        split: bits of that low part.
        out: bool, shape (n_rows,), overwritten.
    """
    entry, squared_vector, squared_weights, squared_responses, joint_high, joint_low = limits.tolist()
    broken_entries = _broken_items(indptr, items, n_items)
    if weights.size:
        broken_entries |= weights < 0
    if responses.size:
        broken_entries |= responses > entry
        broken_entries |= responses < -entry
    out[:] = _rows_of(indptr, broken_entries)
    norms = _squared_norms(vectors)
    out |= norms > squared_vector
    if weights.size:
        out |= _row_sums(indptr, np.square(weights, dtype=np.int64)) > squared_weights
    if squared_responses >= 0 and responses.size:
        out |= _row_sums(indptr, np.square(responses, dtype=np.int64)) > squared_responses
    if joint_high >= 0:
        # In two halves, since the product may need 76 bits.
        parts = np.multiply(weights, responses, dtype=np.int32)  # at most 2^30, whatever was sent
        products = np.where(
            out, 0, _row_sums(indptr, np.square(parts, dtype=np.int64))
        )  # < 2^53 where not broken
        norms = np.where(out, 0, norms)  # < 2^25
        mask = (1 << split) - 1
        low = (products & mask) * norms
        high = (products >> split) * norms + (low >> split)
        low &= mask
        out |= (high > joint_high) | ((high == joint_high) & (low > joint_low))


def _broken_items(indptr: IntArray, items: IndexArray, n_items: int) -> BoolArray:
    """Mark entries whose item is not in the catalogue or not above the one before it in its row."""
    broken: BoolArray = items.view(np.uint32) >= n_items  # negative numbers are large ones here
    not_ascending = items[1:] <= items[:-1]
    starts = indptr[1:-1]
    not_ascending[starts[(starts > 0) & (starts < items.size)] - 1] = False
    broken[1:] |= not_ascending
    return broken


def _rows_of(indptr: IntArray, marked: BoolArray) -> BoolArray:
    """Mark the rows that hold a marked entry."""
    rows = np.zeros(indptr.size - 1, dtype=np.bool_)
    rows[np.searchsorted(indptr, np.flatnonzero(marked), side="right") - 1] = True
    return rows


def _row_sums(indptr: IntArray, values: IntArray) -> IntArray:
    """Sums over rows, int64, exact wherever the row's own sum fits."""
    sums = np.zeros(indptr.size - 1, dtype=np.int64)
    filled = np.flatnonzero(indptr[1:] > indptr[:-1])
    if filled.size:  # from the start of each row that has entries to that of the next
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


def _squared_norms(vectors: ShortArray) -> IntArray:
    wide = vectors.astype(np.int64)
    norms: IntArray = np.einsum("nd,nd->n", wide, wide)
    return norms
