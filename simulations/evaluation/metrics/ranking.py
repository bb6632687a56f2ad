"""Top-k recommendation: recall, normalised discounted cumulative gain, and recall per popularity bucket."""

from collections.abc import Sequence

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics.membership import listed_in
from fedboard.simulations.evaluation.metrics.metric import (
    Better,
    JudgedLists,
    ListMetric,
    Means,
    OfHits,
    of_hits,
    popularity_buckets,
)

SLICE_POSITIONS = (100, 80, 60, 40, 20)
"""List lengths of the sliced recall, tail to head: the tail has less recall, longer lists keep it visible."""
HEAD_SHARE = 0.1
"""Of the items, by training count: those that the paper's models of lists learn."""


def recall_at_k(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    """Recall@k: mean over users of |first k recommended inter target| / min(k, |target|).

    Users without held-out items are left out of the mean.

    Args:
        recommended: int32, shape (n_users, >= k), each user's items, best first, no item twice, history
            excluded; a negative number is an empty place. From ``fedboard.common.kernels.top_k``. Private.
        targets: held-out items, one row a user, in the same order; ratings are not looked at. Private.
        k: length of the list that the user sees.

    Returns:
        In [0, 1]. Not private: simulation only.

    Raises:
        InputError: rows do not pair up, lists shorter than k, or no user has a held-out item.

    Reference: Liang et al. (2018), section 4.2 (arXiv:1802.05814); Krichene et al. (2023), appendix D.1.
    """
    return mean_over_users(recalls, recommended, targets, k)


def ndcg_at_k(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    """NDCG@k with binary relevance: mean over users of DCG / ideal DCG.

    DCG = sum over places r = 1..k that hold a held-out item of 1 / log2(r + 1); the ideal list has
    min(k, |target|) such places at its top. Arguments and errors as in ``recall_at_k``.

    Returns:
        In [0, 1]. Not private: simulation only.
    """
    return mean_over_users(discounted_gains, recommended, targets, k)


def recalls(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """Recall of each user; as ``recall_at_k`` averages them."""
    found: FloatArray = hits.sum(axis=1) / np.minimum(held_out, hits.shape[1])
    return found


def discounted_gains(hits: BoolArray, held_out: IntArray) -> FloatArray:
    """DCG / ideal DCG of each user; as ``ndcg_at_k`` averages them."""
    k = hits.shape[1]
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(gains)[np.minimum(held_out, k) - 1]
    found: FloatArray = (hits @ gains) / ideal
    return found


def mean_over_users(of_user: OfHits, recommended: IndexArray, targets: Cohort, k: int) -> float:
    """The mean over users with held-out items of a number of theirs.

    Arguments and errors as in ``recall_at_k``.
    """
    asked = targets.counts > 0
    hits = hits_at_k(recommended, targets, k)[asked]
    return float(np.mean(of_user(hits, targets.counts[asked])))


def sliced_recall(
    recommended: IndexArray,
    targets: Cohort,
    bucket_of_item: IndexArray,
    *,
    positions: Sequence[int] = SLICE_POSITIONS,
) -> FloatArray:
    """Recall per popularity bucket, with a longer list for the tail.

    For bucket b with its k = positions[b]: target and list are cut down to the items of b, and the recall is
    the mean of |first k recommended inter target inter b| / min(k, |target inter b|) over the users with a
    held-out item in b. The list is the user's one ranking over the *whole* catalogue and only then cut down:
    a tail item counts as found only if it beats the head items too. (Ranking inside the bucket alone would
    ask an easier question, and is not what the authors' public code computes.)

    Args:
        recommended: int32, shape (n_users, >= max(positions)), as in ``recall_at_k``. Private.
        targets: held-out items, one row a user. Private.
        bucket_of_item: int32, shape (n_items,), from ``popularity_buckets``.
        positions: k of each bucket, tail to head.

    Returns:
        float64, shape (n_buckets,), each in [0, 1]; NaN for a bucket in which no user has a held-out item.

    Raises:
        InputError: rows do not pair up, lists too short, or not one k per bucket.

    Reference: Krichene et al. (2023), section 5, footnote 3, figures 4 and 8 (arXiv:2302.07975). The
    footnote has "larger k for tail buckets, k = 20 for the first": it counts from the head, we from the tail.
    """
    n_buckets = int(bucket_of_item.max()) + 1
    if len(positions) != n_buckets:
        raise InputError(f"sliced recall needs one k per bucket: {n_buckets} buckets, {len(positions)} given")
    hits_at_k(recommended, targets, max(positions))  # says what does not fit
    tally = SlicedRecalls(positions)
    nobody = np.zeros(targets.n_users, dtype=np.int32)
    tally.add(JudgedLists.of(recommended, targets, groups=nobody, bucket_of_item=bucket_of_item))
    return tally.values()


class SlicedRecalls:
    """Recall per popularity bucket, as ``sliced_recall`` says."""

    def __init__(self, positions: Sequence[int]) -> None:
        """Nothing seen yet; ``positions`` has k of each bucket, tail to head."""
        self._positions, self._means = tuple(positions), Means(len(positions))

    def add(self, seen: JudgedLists) -> None:
        """Take in a block of users; those without a held-out item in a bucket are not in its mean."""
        n_buckets, longest = len(self._positions), max(self._positions)
        bucket = np.where(seen.hits[:, :longest], seen.bucket_of_item[seen.lists[:, :longest]], -1)
        wanted = _targets_per_bucket(seen.targets, seen.bucket_of_item, n_buckets)
        for number, k in enumerate(self._positions):
            asked = wanted[:, number] > 0
            found = np.count_nonzero(bucket[asked, :k] == number, axis=1)
            recall = found / np.minimum(wanted[asked, number], k)
            self._means.add_values(recall, np.full(recall.size, number, dtype=np.int32))

    def merge(self, other: "SlicedRecalls") -> None:
        """Take in another's."""
        self._means.merge(other._means)

    def value(self) -> float:
        """The mean over buckets and their users; not a recall, nobody shows it."""
        return self._means.mean()

    def values(self) -> FloatArray:
        """By bucket, float64, shape (n_buckets,), tail to head."""
        return self._means.means()


def recall_of_head(
    recommended: IndexArray, targets: Cohort, counts: IntArray, *, share: float = HEAD_SHARE
) -> FloatArray:
    """Sliced recall whose five buckets divide the most popular items alone, as the published code has it.

    There only a tenth of the items is learnt, and buckets are fifths of that tenth: "tail" means the less popular
    end of the most popular items. Over the whole catalogue four of five buckets then hold items that can never be
    recommended, and their recall is 0 whatever is learnt.

    Args:
        recommended: as for ``sliced_recall``.
        targets: likewise.
        counts: training ratings per item, shape (n_items,). Private: simulation only.
        share: of the items, in (0, 1].

    Returns:
        As ``sliced_recall``; fewer buckets where so few items are left.
    """
    bucket_of_item, positions, n_buckets = head_buckets(counts, share=share)
    return sliced_recall(recommended, targets, bucket_of_item, positions=positions)[:n_buckets]


def head_buckets(counts: IntArray, *, share: float = HEAD_SHARE) -> tuple[IndexArray, tuple[int, ...], int]:
    """The buckets of ``recall_of_head``: arguments as there.

    Returns:
        Bucket of each item, int32, shape (n_items,), all other items in one more; k of each; and how many count.
    """
    head = np.argsort(counts, kind="stable")[-max(1, round(share * counts.size)) :]
    n_buckets = min(len(SLICE_POSITIONS), head.size)
    bucket_of_item = np.full(counts.size, n_buckets, dtype=np.int32)
    bucket_of_item[head] = popularity_buckets(counts[head], n_buckets=n_buckets)
    positions = (*SLICE_POSITIONS[-n_buckets:], max(SLICE_POSITIONS))[: int(bucket_of_item.max()) + 1]
    return bucket_of_item, positions, n_buckets


def _targets_per_bucket(targets: Cohort, bucket_of_item: IndexArray, n_buckets: int) -> IntArray:
    """Held-out items per user and bucket, shape (n_users, n_buckets)."""
    cell = targets.user_of_entry().astype(np.int64) * n_buckets + bucket_of_item[_items(targets)]
    table = np.bincount(cell, minlength=targets.n_users * n_buckets)
    return table.reshape(targets.n_users, n_buckets)


def hits_at_k(recommended: IndexArray, targets: Cohort, k: int) -> BoolArray:
    """Whether each of the first k recommended items is held out, bool, shape (n_users, k).

    Arguments and errors as in ``recall_at_k``.
    """
    first = first_k(recommended, targets, k)
    if targets.n_ratings == 0:
        raise InputError("a ranking metric needs at least one held-out item; check the split")
    return listed_in(first, targets.indptr, targets.items, n_items=targets.n_items)


def first_k(recommended: IndexArray, targets: Cohort, k: int) -> IndexArray:
    """The first k of each list, int32, shape (n_users, k).

    Raises:
        InputError: rows do not pair up, or lists shorter than k.
    """
    if recommended.ndim != 2 or recommended.shape[0] != targets.n_users:
        raise InputError("recommended and targets must have one row per user, in the same order")
    if not 1 <= k <= recommended.shape[1]:
        raise InputError(f"k must be in 1..{recommended.shape[1]}, the length of the lists given; got {k}")
    return recommended[:, :k]


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
)
