"""Top-k recommendation: recall, normalised discounted cumulative gain, and recall per popularity bucket."""

from collections.abc import Sequence

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.judging.metrics.buckets import popularity_buckets
from fedboard.simulations.judging.metrics.membership import listed_in
from fedboard.simulations.judging.metrics.metric import Better, ListMetric

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
    hits = hits_at_k(recommended, targets, k)
    return _mean_recall(hits.sum(axis=1), targets.counts, k)


def ndcg_at_k(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    """NDCG@k with binary relevance: mean over users of DCG / ideal DCG.

    DCG = sum over places r = 1..k that hold a held-out item of 1 / log2(r + 1); the ideal list has
    min(k, |target|) such places at its top. Arguments and errors as in ``recall_at_k``.

    Returns:
        In [0, 1]. Not private: simulation only.
    """
    hits = hits_at_k(recommended, targets, k)
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    ideal = np.concatenate([[0.0], np.cumsum(gains)])[np.minimum(targets.counts, k)]
    asked = ideal > 0
    return float(np.mean((hits[asked] @ gains) / ideal[asked]))


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
    longest = max(positions)
    hits = hits_at_k(recommended, targets, longest)
    hit_bucket = np.where(hits, bucket_of_item[recommended[:, :longest]], -1)
    held_out = _targets_per_bucket(targets, bucket_of_item, n_buckets)
    found = [np.count_nonzero(hit_bucket[:, :k] == bucket, axis=1) for bucket, k in enumerate(positions)]
    recalls = [
        _mean_recall(found[bucket], held_out[:, bucket], k) if held_out[:, bucket].any() else np.nan
        for bucket, k in enumerate(positions)
    ]
    return np.array(recalls, dtype=np.float64)


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
    head = np.argsort(counts, kind="stable")[-max(1, round(share * counts.size)) :]
    n_buckets = min(len(SLICE_POSITIONS), head.size)
    outside = n_buckets
    bucket_of_item = np.full(counts.size, outside, dtype=np.int32)
    bucket_of_item[head] = popularity_buckets(counts[head], n_buckets=n_buckets)
    positions = (*SLICE_POSITIONS[-n_buckets:], max(SLICE_POSITIONS))[: int(bucket_of_item.max()) + 1]
    return sliced_recall(recommended, targets, bucket_of_item, positions=positions)[:n_buckets]


def _targets_per_bucket(targets: Cohort, bucket_of_item: IndexArray, n_buckets: int) -> IntArray:
    """Held-out items per user and bucket, shape (n_users, n_buckets)."""
    cell = targets.user_of_entry().astype(np.int64) * n_buckets + bucket_of_item[_items(targets)]
    table = np.bincount(cell, minlength=targets.n_users * n_buckets)
    return table.reshape(targets.n_users, n_buckets)


def _mean_recall(found: IntArray, held_out: IntArray, k: int) -> float:
    asked = held_out > 0
    return float(np.mean(found[asked] / np.minimum(held_out[asked], k)))


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


def _sliced(recommended: IndexArray, targets: Cohort, bucket_of_item: IndexArray) -> FloatArray:
    """Sliced recall; a tiny catalogue has fewer buckets, the lengths are those nearest to the head."""
    positions = SLICE_POSITIONS[-(int(bucket_of_item.max()) + 1) :]
    return sliced_recall(recommended, targets, bucket_of_item, positions=positions)


METRICS = (
    ListMetric(
        name="recall",
        label="recall",
        means="the share of a user's held-out items that are among the first k of her list",
        better=Better.HIGHER,
        at=(20, 50),
        of=recall_at_k,
        sliced=_sliced,
        sliced_label=f"recall, k = {', '.join(map(str, SLICE_POSITIONS))}",
    ),
    ListMetric(
        name="ndcg",
        label="NDCG",
        means="the same, and the higher on the list the more it counts; 1 if all held-out items come first",
        better=Better.HIGHER,
        at=(20, 100),
        of=ndcg_at_k,
    ),
)
