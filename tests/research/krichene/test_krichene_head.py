"""Recall within the most popular items: a metric of the experiments' own."""

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.simulations.evaluation.metrics.metric import popularity_buckets
from research.krichene.head import RECALL_OF_HEAD, HeadRecalls, head_buckets
from tests.simulations.evaluation.metrics.small_lists import judged, lists, targets_of


def test_buckets_of_the_head_divide_the_popular_items_alone() -> None:
    counts: IntArray = np.arange(100)  # item 99 is the most popular; the head is 90..99, its buckets pairs
    recommended = lists(list(range(99, -1, -1)), list(range(0, 100)))
    targets = targets_of([[90, 99, 3], [99]], n_items=100)
    tally = RECALL_OF_HEAD.sliced(5)  # type: ignore[misc]

    tally.add(judged(recommended, targets, counts=counts))

    # Bucket 0 (90, 91; k = 100): found by the first; bucket 4 (98, 99; k = 20): by the first, not by the second.
    found = tally.values()
    assert isinstance(tally, HeadRecalls)
    assert found[[0, 4]].tolist() == [1.0, 0.5]
    assert np.isnan(found[1:4]).all()
    np.testing.assert_array_equal(head_buckets(counts, share=1.0), popularity_buckets(counts))
