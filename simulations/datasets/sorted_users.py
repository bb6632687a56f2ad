"""Ratings of some users, all of each, sorted by user and item: what is read so, and written to shards."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SortedUsers:
    """Ratings of some users, all of each, sorted by user and item. Private."""

    keys: BitArray
    """uint64, shape (n_users,), see ``id_keys``; empty where they were not asked."""
    counts: IntArray
    """int64, shape (n_users,): how many ratings each has; may be 0."""
    items: IndexArray
    """int32, shape (n_ratings,)."""
    values: Float32Array
    """float32, shape (n_ratings,)."""
    times: IntArray | None
    """int64, shape (n_ratings,); None: not kept."""

    def some(self, start: int, stop: int, ends: IntArray) -> "SortedUsers":
        """Users ``start:stop`` of these; ``ends`` are the sums of ``counts``, from 0."""
        first, last = int(ends[start]), int(ends[stop])
        return SortedUsers(
            keys=self.keys[start:stop],
            counts=self.counts[start:stop],
            items=self.items[first:last],
            values=self.values[first:last],
            times=None if self.times is None else self.times[first:last],
        )

    @staticmethod
    def joined(parts: "list[SortedUsers]") -> "SortedUsers":
        """All of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        times = [part.times for part in parts if part.times is not None]
        return SortedUsers(
            keys=np.concatenate([part.keys for part in parts]),
            counts=np.concatenate([part.counts for part in parts]),
            items=np.concatenate([part.items for part in parts]),
            values=np.concatenate([part.values for part in parts]),
            times=np.concatenate(times) if times else None,
        )


def cut(sizes: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Cut what stands in a row into pieces of at most so much; what alone is more is a piece of its own.

    Args:
        sizes: int64, shape (n,), >= 0.
        most: >= 1.

    Yields:
        Bounds (first, one past the last), one piece after the other; none is empty.
    """
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    start = 0
    while start < sizes.size:
        within = int(np.searchsorted(ends, ends[start] + most, side="right")) - 1
        stop = max(within, start + 1)
        yield start, stop
        start = stop
