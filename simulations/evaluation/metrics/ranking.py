"""Top-k recommendation: recall, also per popularity bucket, discounted gain, reciprocal rank, precision.

Users without held-out items are left out of every mean.
"""

from collections.abc import Sequence

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.evaluation.metrics.metric import (
    Better,
    JudgedLists,
    ListMetric,
    Means,
    of_hits,
)

SLICE_POSITIONS = (100, 80, 60, 40, 20)
"""List lengths of the sliced recall, tail to head: the tail has less recall, longer lists keep it visible."""


def recalls(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """Recall of each user: |first k of the list inter target| / min(k, |target|).

    Reference: Liang et al. (2018), section 4.2 (arXiv:1802.05814); Krichene et al. (2023), appendix D.1.
    """
    found: FloatArray = hits.sum(axis=1) / np.minimum(held_out, hits.shape[1])
    return found


def discounted_gains(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """NDCG with binary relevance of each user: DCG / ideal DCG.

    DCG = sum over places r = 1..k that hold a held-out item of 1 / log2(r + 1); the ideal list has
    min(k, |target|) such places at its top.
    """
    k = hits.shape[1]
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(gains)[np.minimum(held_out, k) - 1]
    found: FloatArray = (hits @ gains) / ideal
    return found


def reciprocal_ranks(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """1 / place of each user's first hit, 0 without one; places count from 1.

    Reference: E. M. Voorhees (1999), The TREC-8 question answering track report.
    """
    return np.where(hits.any(axis=1), 1.0 / (1 + hits.argmax(axis=1)), 0.0)


def average_precisions(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """Average precision of the first k of each user's list.

    AP = (sum over the places r = 1..k that hold a held-out item of hits among the first r / r) / min(k, |target|):
    1 where held-out items fill the list, or all come first. Some divide by |target| instead, which no list of k
    can make 1 for a user with more.

    Reference: C. D. Manning, P. Raghavan, H. Schuetze (2008), Introduction to information retrieval, section 8.4.
    """
    k = hits.shape[1]
    precision = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    found: FloatArray = np.where(hits, precision, 0.0).sum(axis=1) / np.minimum(held_out, k)
    return found


class SlicedRecalls(Means):
    """Recall per popularity bucket, with a longer list for the tail.

    For bucket b with its k = positions[b]: target and list are cut down to the items of b, and the recall is the
    mean of |first k of the list inter target inter b| / min(k, |target inter b|) over the users with a held-out
    item in b. The list is the user's one ranking over the *whole* catalogue and only then cut down: a tail item
    counts as found only if it beats the head items too. (Ranking inside the bucket alone would ask an easier
    question, and is not what the authors' public code computes.) ``values`` are by bucket, tail to head.

    Reference: Krichene et al. (2023), section 5, footnote 3, figures 4 and 8 (arXiv:2302.07975). The
    footnote has "larger k for tail buckets, k = 20 for the first": it counts from the head, we from the tail.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        """Nothing seen yet; ``positions`` has k of each bucket, tail to head."""
        super().__init__(len(positions))
        self._positions = tuple(positions)

    def add(self, seen: JudgedLists) -> None:
        """Take in a block of users; those without a held-out item in a bucket are not in its mean."""
        n_buckets, longest = len(self._positions), max(self._positions)
        bucket = np.where(seen.hits[:, :longest], seen.bucket_of_item[seen.lists[:, :longest]], -1)
        wanted = _targets_per_bucket(seen.targets, seen.bucket_of_item, n_buckets)
        for number, k in enumerate(self._positions):
            asked = wanted[:, number] > 0
            found = np.count_nonzero(bucket[asked, :k] == number, axis=1)
            recall = found / np.minimum(wanted[asked, number], k)
            self.add_values(recall, np.full(recall.size, number, dtype=np.int32))


def _targets_per_bucket(targets: Cohort, bucket_of_item: IndexArray, n_buckets: int) -> IntArray:
    """Held-out items per user and bucket, shape (n_users, n_buckets)."""
    cell = targets.user_of_entry().astype(np.int64) * n_buckets + bucket_of_item[_items(targets)]
    table = np.bincount(cell, minlength=targets.n_users * n_buckets)
    return table.reshape(targets.n_users, n_buckets)


def _items(cohort: Cohort) -> IndexArray:
    """Items of all rows, also where the cohort is a view whose first row does not start at entry 0."""
    return cohort.items[cohort.indptr[0] : cohort.indptr[-1]]


def _sliced(n_buckets: int) -> SlicedRecalls:
    """A tiny catalogue has fewer buckets; the lengths are those nearest to the head."""
    return SlicedRecalls(SLICE_POSITIONS[-n_buckets:])


METRICS = (
    ListMetric(
        name="recall",
        label="recall",
        means="the share of a user's held-out items that are among the first k of her list",
        better=Better.HIGHER,
        at=(20, 50),
        of=of_hits(recalls),
        sliced=_sliced,
        sliced_label=f"recall, k = {', '.join(map(str, SLICE_POSITIONS))}",
    ),
    ListMetric(
        name="ndcg",
        label="NDCG",
        means="the same, and the higher on the list the more it counts; 1 if all held-out items come first",
        better=Better.HIGHER,
        at=(20, 100),
        of=of_hits(discounted_gains),
    ),
    ListMetric(
        name="mrr",
        label="MRR",
        means="one over the place of the first held-out item on a user's list, 0 where her first k have none",
        better=Better.HIGHER,
        at=(10,),
        of=of_hits(reciprocal_ranks),
    ),
    ListMetric(
        name="map",
        label="MAP",
        means="the precision of the list down to each held-out item on it, averaged over those that it could hold",
        better=Better.HIGHER,
        at=(10,),
        of=of_hits(average_precisions),
    ),
)
