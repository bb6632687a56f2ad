"""Some users' ratings as they stand in a shard."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UserRows:
    """Rows of some users that follow each other. Private. What was not asked for is empty."""

    indptr: IntArray
    """int64, shape (n_users + 1,), from 0."""
    items: IndexArray
    values: Float32Array
    keys: BitArray
    times: IntArray

    def some(self, start: int, stop: int) -> "UserRows":
        """Users ``start:stop`` of these, as views."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return UserRows(
            indptr=self.indptr[start : stop + 1] - first,
            items=self.items[first:last],
            values=self.values[first:last],
            keys=self.keys[start:stop],
            times=self.times[first:last],
        )

    @staticmethod
    def joined(parts: Sequence["UserRows"]) -> "UserRows":
        """All of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        counts = [np.diff(part.indptr) for part in parts]
        indptr = np.concatenate([np.zeros(1, np.int64), *counts])
        return UserRows(
            indptr=np.cumsum(indptr, out=indptr),
            items=np.concatenate([np.zeros(0, np.int32), *(part.items for part in parts)]),
            values=np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
            keys=np.concatenate([np.zeros(0, np.uint64), *(part.keys for part in parts)]),
            times=np.concatenate([np.zeros(0, np.int64), *(part.times for part in parts)]),
        )
