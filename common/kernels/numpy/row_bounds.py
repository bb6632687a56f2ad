"""Which rows break a bound, in numpy: exact integers."""

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray


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
    """Fill ``out`` with what ``fedboard.common.per_user.clipping.check_rows`` says of each row.

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
