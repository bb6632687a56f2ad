"""Exact sums over the entries of compressed rows: of pairs, and the statistics of items."""

from typing import Final

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray, ShortArray, ascends
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation
from fedboard.common.kernels.packed import packed_size
from fedboard.common.kernels.threads import for_row_ranges


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
    # Compiled kernels read without looking: nothing may get past.
    if items.size and (items.min() < 0 or items.max() >= n_items):
        raise InputError("items must be numbers of the catalogue")
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    if indptr.ndim != 1 or indptr.size < 1 or indptr[0] != 0 or not ascends(indptr):
        raise InputError("indptr must ascend from 0 to the number of entries")
    if items.shape != (indptr[-1],) or responses.shape != items.shape:
        raise InputError("indptr, items and responses do not fit together")
    sums = np.zeros(n_items * (n_items + 1) // 2, dtype=np.int64)
    kernel.add_pairs(indptr, items, np.ascontiguousarray(responses), n_items, sums)
    return sums


VECTOR_LIMIT: Final = 1 << 12


def item_statistics(
    indptr: IntArray,
    users: IndexArray,
    entries: IntArray,
    vectors: ShortArray,
    weights: ShortArray,
    responses: ShortArray,
    *,
    start: int,
    stop: int,
    quadratic: bool = True,
    backend: str,
    threads: int = 1,
) -> tuple[IntArray | None, IntArray]:
    """Sum weighted outer products and weighted responses over the users of each item, exactly.

    Item i, over its ratings k in indptr[i]:indptr[i + 1] with v = vectors[users[k]], w = weights[entries[k]] and
    r = responses[entries[k]]: quadratic = sum_k w v v^T, linear = sum_k w r v, on the integer grid.

    **Guarantee**: integers, summed exactly, so every backend, split and order gives the same bits.

    Args:
        indptr: int64, shape (n_items + 1,). Private, as is all that follows.
        users: int32, shape (n_ratings,), row numbers into ``vectors``.
        entries: int64, shape (n_ratings,), places in ``weights`` and ``responses`` (user-major order).
        vectors: int16, shape (n_users, rank), grid units, within +-4096.
        weights: int16, shape (n_ratings,), 16384 for 1. Where it lies beside ``responses``, rating for rating, a
            compiled backend waits once for both.
        responses: int16, shape (n_ratings,), grid units.
        start: first item.
        stop: one past the last item.
        quadratic: False skips the outer products.
        backend: "numpy" or "compiled".
        threads: >= 1.

    Returns:
        int64, shape (stop - start, rank (rank + 1) / 2), packed upper triangles, or None;
        int64, shape (stop - start, rank).

    Raises:
        InputError: arrays that do not fit together, or vectors beyond the grid.
    """
    kernel = implementation(backend, "item_statistics")
    indptr, entries = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(entries, np.int64)
    users, vectors = np.ascontiguousarray(users, np.int32), np.ascontiguousarray(vectors, np.int16)
    weights, responses = np.asarray(weights, np.int16), np.asarray(responses, np.int16)
    # Compiled kernels read without looking: nothing may get past.
    if not 0 <= start <= stop < indptr.size:
        raise InputError(f"items {start}:{stop} are outside the catalogue of {indptr.size - 1}")
    if users.shape != entries.shape or weights.shape != responses.shape:
        raise InputError("users and entries, weights and responses must pair up one to one")
    if indptr[0] < 0 or indptr[-1] > users.size or not ascends(indptr):
        raise InputError("indptr must ascend within 0..number of entries")
    read = slice(int(indptr[start]), int(indptr[stop]))  # a call for a few items looks at theirs alone
    raters, places = users[read], entries[read]
    if raters.size and (raters.min() < 0 or raters.max() >= vectors.shape[0]):
        raise InputError("users must be row numbers of vectors")
    if places.size and (places.min() < 0 or places.max() >= weights.size):
        raise InputError("entries must be places in weights and responses")
    if vectors.size and (vectors.min() < -VECTOR_LIMIT or vectors.max() > VECTOR_LIMIT):
        raise InputError(f"vectors must stay within +-{VECTOR_LIMIT} grid units")
    rank = vectors.shape[1]
    squares = np.empty((stop - start, packed_size(rank) if quadratic else 0), np.int64)
    linear = np.empty((stop - start, rank), np.int64)
    rows = indptr[start : stop + 1]

    def work(first: int, last: int) -> None:
        kernel.sum_rows(rows, users, entries, vectors, weights, responses, first, last, squares, linear)

    for_row_ranges(work, np.diff(rows) + 1.0, threads=threads)
    return (squares if quadratic else None), linear
