"""Lists and held-out items that tests of metrics write down."""

import numpy as np

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort, cohort_from_triples


def targets_of(rows: list[list[int]], *, n_items: int) -> Cohort:
    users = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int32)
    items = np.array([item for row in rows for item in row], dtype=np.int32)
    ratings = np.ones(items.size, dtype=np.float32)
    return cohort_from_triples(users, items, ratings, n_users=len(rows), n_items=n_items)


def lists(*rows: list[int]) -> IndexArray:
    return np.array(rows, dtype=np.int32)
