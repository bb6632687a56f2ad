"""Coins of ratings as compiled loops: bit for bit those of ``coins``, without an array for each step."""

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray
from fedboard.common.kernels.compiled.panels import mix
from fedboard.common.kernels.compiling import compiled, reading, writing


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1)),
    *(reading("uint64", 1), reading("uint64", 1), reading("uint64", 1), reading("uint64", 1)),
    *(reading("uint64", 1), writing("int64", 1), writing("int32", 1), writing("float32", 1)),
)
def fill_learnt(
    indptr: IntArray,
    items: IndexArray,
    ratings: Float32Array,
    user_first: BitArray,
    user_second: BitArray,
    item_first: BitArray,
    item_second: BitArray,
    arc: BitArray,
    kept: IntArray,
    kept_items: IndexArray,
    kept_ratings: Float32Array,
) -> None:
    """Copy what is learnt from.

    Args:
        indptr: int64, shape (n_users + 1,); with the next two a cohort.
        items: int32, shape (n_ratings,).
        ratings: float32, shape (n_ratings,).
        user_first: u0 of ``SplitCoins.halves``, uint64, shape (n_users,).
        user_second: u1.
        item_first: i0, shape (n_items,).
        item_second: i1.
        arc: uint64, shape (2,): ``SplitRule.held_out_arc``.
        kept: int64, shape (n_users + 1,): row ends, filled in.
        kept_items: room for all items; filled in from the start.
        kept_ratings: likewise.
    """
    at, start, size = 0, arc[0], arc[1]
    kept[0] = 0
    for row in range(indptr.size - 1):
        first, second = user_first[row], user_second[row]
        for k in range(indptr[row], indptr[row + 1]):
            item = items[k]
            word = mix(mix(first + item_first[item]) + (second ^ item_second[item]))
            kept_items[at] = item
            kept_ratings[at] = ratings[k]
            at += int(word - start >= size)  # what falls on the arc is written over
        kept[row + 1] = at
