"""Recall among the most popular items alone, as the published code slices it: a metric of one's own."""

from dataclasses import replace

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.simulations.evaluation.metrics.metric import (
    N_BUCKETS,
    Better,
    JudgedLists,
    ListMetric,
    of_hits,
    popularity_buckets,
)
from fedboard.simulations.evaluation.metrics.ranking import SLICE_POSITIONS, SlicedRecalls, recalls

HEAD_SHARE = 0.1
"""Of the items, by training count: those that the paper's models of lists learn."""


def head_buckets(counts: IntArray, *, share: float = HEAD_SHARE) -> IndexArray:
    """Five buckets that divide the most popular items alone, as the published code has it.

    There only a tenth of the items is learnt, and buckets are fifths of that tenth: "tail" means the less popular
    end of the most popular items. Over the whole catalogue four of five buckets then hold items that can never be
    recommended, and their recall is 0 whatever is learnt.

    Args:
        counts: training ratings per item, shape (n_items,). Private: simulation only.
        share: of the items, in (0, 1].

    Returns:
        Bucket of each item, int32, shape (n_items,); all other items are in one more.
    """
    head = np.argsort(counts, kind="stable")[-max(1, round(share * counts.size)) :]
    bucket_of_item = np.full(counts.size, N_BUCKETS, dtype=np.int32)
    bucket_of_item[head] = popularity_buckets(counts[head])
    return bucket_of_item


class HeadRecalls(SlicedRecalls):
    """Recall per bucket of the head."""

    def __init__(self, n_buckets: int) -> None:
        """Nothing seen yet; however many buckets the whole catalogue has, the head has five."""
        super().__init__((*SLICE_POSITIONS, max(SLICE_POSITIONS)))

    def add(self, seen: JudgedLists) -> None:
        """Take in a block of users."""
        super().add(replace(seen, bucket_of_item=head_buckets(seen.counts)))

    def values(self) -> FloatArray:
        """By bucket of the head, float64, shape (5,), tail to head."""
        return super().values()[:-1]


RECALL_OF_HEAD = ListMetric(
    name="recall-of-head",
    label="recall by popularity within the head",
    better=Better.HIGHER,
    at=(20,),
    of=of_hits(recalls),
    sliced=HeadRecalls,
)
