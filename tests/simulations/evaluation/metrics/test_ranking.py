"""Ranking metrics on lists that one can check by hand, and against obvious loops."""

import math

import numpy as np
import pytest

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.evaluation.metrics import (
    ndcg_at_k,
    popularity_buckets,
    recall_at_k,
    recall_of_head,
    sliced_recall,
)
from tests.simulations.evaluation.metrics.small_lists import lists, targets_of


def random_problem(seed: int, *, n_users: int, n_items: int, k: int) -> tuple[IndexArray, Cohort]:
    rng = np.random.default_rng(seed)
    recommended = np.stack([rng.permutation(n_items)[:k] for _ in range(n_users)]).astype(np.int32)
    rows = [rng.permutation(n_items)[: rng.integers(0, 12)].tolist() for _ in range(n_users)]
    return recommended, targets_of(rows, n_items=n_items)


def slow_recall(recommended: IndexArray, targets: Cohort, k: int, only: set[int] | None = None) -> float:
    values = []
    for user in range(targets.n_users):
        target = set(targets.items[targets.indptr[user] : targets.indptr[user + 1]].tolist())
        target = target if only is None else target & only
        if target:
            found = [item for item in recommended[user, :k].tolist() if item in target]
            values.append(len(found) / min(k, len(target)))
    return sum(values) / len(values) if values else math.nan


def test_recall_of_a_tiny_list() -> None:
    recommended = lists([0, 1, 2], [3, 4, 5], [6, 7, 8])
    targets = targets_of([[1, 9], [], [6, 7, 8, 9]], n_items=10)

    # First user 1 of 2, second user has no target, third user 3 of min(3, 4).
    assert recall_at_k(recommended, targets, k=3) == pytest.approx((1 / 2 + 1) / 2)
    # With two places: 1 of 2 and 2 of 2.
    assert recall_at_k(recommended, targets, k=2) == pytest.approx((1 / 2 + 1) / 2)
    assert recall_at_k(recommended, targets, k=1) == pytest.approx((0 + 1) / 2)


def test_ndcg_of_a_tiny_list() -> None:
    recommended = lists([5, 1, 2], [3, 4, 0])
    targets = targets_of([[1, 2, 9], [3]], n_items=10)

    ideal = 1 + 1 / math.log2(3) + 1 / 2
    first = (1 / math.log2(3) + 1 / 2) / ideal
    assert ndcg_at_k(recommended, targets, k=3) == pytest.approx((first + 1) / 2)


def test_recall_agrees_with_the_obvious_loop() -> None:
    recommended, targets = random_problem(3, n_users=60, n_items=40, k=15)

    for k in (1, 5, 15):
        assert recall_at_k(recommended, targets, k=k) == pytest.approx(slow_recall(recommended, targets, k))


def test_sliced_recall_cuts_target_and_one_common_list_down_to_the_bucket() -> None:
    recommended, targets = random_problem(4, n_users=80, n_items=50, k=25)
    buckets = popularity_buckets(np.random.default_rng(5).integers(0, 99, 50))
    positions = (25, 20, 15, 10, 5)

    sliced = sliced_recall(recommended, targets, buckets, positions=positions)

    for bucket, k in enumerate(positions):
        inside = set(np.flatnonzero(buckets == bucket).tolist())
        assert sliced[bucket] == pytest.approx(slow_recall(recommended, targets, k, inside))


def test_in_a_bucket_no_more_items_are_asked_for_than_its_list_has_places() -> None:
    """Somebody with six items of the head to find, and a list of two places, has found all that could be."""
    buckets = np.array([0, 0, 1, 1, 1, 1, 1, 1], dtype=np.int32)
    targets = targets_of([[0, 1, 2, 3, 4, 5, 6, 7], [0, 2, 3]], n_items=8)
    recommended = lists([2, 3, 0, 1], [1, 3, 4, 5])

    sliced = sliced_recall(recommended, targets, buckets, positions=(4, 2))

    assert sliced.tolist() == [
        pytest.approx((2 / min(4, 2) + 0 / min(4, 1)) / 2),
        pytest.approx((2 / min(2, 6) + 1 / min(2, 2)) / 2),
    ]


def test_a_tail_item_counts_only_if_it_beats_the_head_in_the_common_list() -> None:
    # Item 0 is the tail, item 1 the head; the list of one place holds the head item.
    buckets = np.array([0, 1], dtype=np.int32)

    sliced = sliced_recall(lists([1]), targets_of([[0, 1]], n_items=2), buckets, positions=(1, 1))

    assert sliced.tolist() == [0.0, 1.0]


def test_a_bucket_in_which_nobody_has_a_target_has_no_recall() -> None:
    buckets = np.array([0, 1], dtype=np.int32)

    sliced = sliced_recall(lists([1, 0]), targets_of([[1]], n_items=2), buckets, positions=(2, 2))

    assert np.isnan(sliced[0])
    assert sliced[1] == 1.0


def test_empty_places_of_a_short_list_are_no_hits() -> None:
    targets = targets_of([[2]], n_items=3)

    assert recall_at_k(lists([0, -1, -1]), targets, k=3) == 0.0
    assert recall_at_k(lists([2, -1, -1]), targets, k=3) == 1.0
    buckets = np.array([0, 0, 1], dtype=np.int32)
    assert sliced_recall(lists([0, -1]), targets, buckets, positions=(2, 2))[1] == 0.0


def test_a_part_of_a_cohort_is_judged_like_a_cohort() -> None:
    recommended, targets = random_problem(6, n_users=30, n_items=20, k=10)
    part = Cohort(
        indptr=targets.indptr[10:21], items=targets.items, ratings=targets.ratings, n_items=targets.n_items
    )
    buckets = popularity_buckets(np.arange(20))
    positions = (10, 8, 6, 4, 2)

    copied = targets.rows(10, 20)

    rows = recommended[10:20]
    assert recall_at_k(rows, part, k=5) == recall_at_k(rows, copied, k=5)
    np.testing.assert_array_equal(
        sliced_recall(rows, copied, buckets, positions=positions),
        sliced_recall(rows, part, buckets, positions=positions),
    )


def test_recall_of_the_head_divides_the_popular_items_alone() -> None:
    counts = np.arange(100)  # item 99 is the most popular; the head is 90..99, its buckets pairs
    recommended = lists(list(range(99, -1, -1)), list(range(0, 100)))
    targets = targets_of([[90, 99, 3], [99]], n_items=100)

    # Bucket 0 (90, 91; k = 100): found by the first; bucket 4 (98, 99; k = 20): by the first, not by the second.
    found = recall_of_head(recommended, targets, counts)
    assert found[[0, 4]].tolist() == [1.0, 0.5]
    assert np.isnan(found[1:4]).all()

    everything = recall_of_head(recommended, targets, counts, share=1.0)
    expected = sliced_recall(recommended, targets, popularity_buckets(counts))
    np.testing.assert_array_equal(everything, expected)
