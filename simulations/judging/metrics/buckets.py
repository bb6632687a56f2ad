"""Popularity buckets: the catalogue cut into equal parts, from the least to the most rated items."""

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.common.errors import InputError

N_BUCKETS = 5
"""Number of buckets in Krichene et al. (2023), figures 4, 8 and 10."""


def popularity_buckets(counts: IntArray | FloatArray, *, n_buckets: int = N_BUCKETS) -> IndexArray:
    """Sort the items by training count and cut the order into buckets of equal item number.

    Bucket 0 is the tail, bucket ``n_buckets - 1`` the head. Items of equal count keep the order of their item
    numbers; where ``n_items`` does not divide, the buckets nearest the tail hold one item more.

    Args:
        counts: shape (n_items,), training ratings per item. Exact counts are private: simulation only.
        n_buckets: number of buckets, in 1..n_items.

    Returns:
        Bucket of each item, int32, shape (n_items,), in 0..n_buckets - 1.

    Raises:
        InputError: there are fewer items than buckets.

    Reference: Krichene et al. (2023), section 5, "Impact on head and tail tasks".
    """
    if not 1 <= n_buckets <= counts.size:
        raise InputError(f"n_buckets must be in 1..n_items = 1..{counts.size}, got {n_buckets}")
    bucket_of_item = np.empty(counts.size, dtype=np.int32)
    for bucket, items in enumerate(np.array_split(np.argsort(counts, kind="stable"), n_buckets)):
        bucket_of_item[items] = bucket
    return bucket_of_item


def bucket_edges(counts: IntArray | FloatArray, bucket_of_item: IndexArray) -> FloatArray:
    """The counts between which the buckets lie: the smallest count of each bucket, then the largest of all.

    Args:
        counts: shape (n_items,), the counts that ``popularity_buckets`` was given.
        bucket_of_item: int32, shape (n_items,), from ``popularity_buckets``; no bucket is empty.

    Returns:
        Counts, float64, shape (n_buckets + 1,), ascending.
    """
    smallest = np.full(int(bucket_of_item.max()) + 1, np.inf)
    np.minimum.at(smallest, bucket_of_item, counts)
    return np.append(smallest, float(counts.max()))
