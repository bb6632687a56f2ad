"""Metrics of lists that one can check by hand, on published examples, and against obvious loops."""

import math
from collections import Counter

import numpy as np
import pytest

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.evaluation.metrics.metric import popularity_buckets
from fedboard.simulations.evaluation.metrics.ranking import SlicedRecalls
from tests.simulations.evaluation.metrics.small_lists import judged, lists, targets_of, value_of


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
    assert value_of("recall", recommended, targets, k=3) == pytest.approx((1 / 2 + 1) / 2)
    # With two places: 1 of 2 and 2 of 2.
    assert value_of("recall", recommended, targets, k=2) == pytest.approx((1 / 2 + 1) / 2)
    assert value_of("recall", recommended, targets, k=1) == pytest.approx((0 + 1) / 2)


def test_ndcg_of_a_tiny_list() -> None:
    recommended = lists([5, 1, 2], [3, 4, 0])
    targets = targets_of([[1, 2, 9], [3]], n_items=10)

    ideal = 1 + 1 / math.log2(3) + 1 / 2
    first = (1 / math.log2(3) + 1 / 2) / ideal
    assert value_of("ndcg", recommended, targets, k=3) == pytest.approx((first + 1) / 2)


def test_recall_agrees_with_the_obvious_loop() -> None:
    recommended, targets = random_problem(3, n_users=60, n_items=40, k=15)

    for k in (1, 5, 15):
        assert value_of("recall", recommended, targets, k=k) == pytest.approx(
            slow_recall(recommended, targets, k)
        )


def sliced_recall(
    recommended: IndexArray, targets: Cohort, buckets: IndexArray, positions: tuple[int, ...]
) -> FloatArray:
    tally = SlicedRecalls(positions)
    tally.add(judged(recommended, targets, buckets))
    return tally.values()


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

    assert value_of("recall", lists([0, -1, -1]), targets, k=3) == 0.0
    assert value_of("recall", lists([2, -1, -1]), targets, k=3) == 1.0
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
    assert value_of("recall", rows, part, k=5) == value_of("recall", rows, copied, k=5)
    np.testing.assert_array_equal(
        sliced_recall(rows, copied, buckets, positions=positions),
        sliced_recall(rows, part, buckets, positions=positions),
    )


@pytest.mark.parametrize(
    ("listed", "held_out", "k", "expected"),
    [
        # From the tests of https://github.com/benhamner/Metrics, whose `apk` divides by the same minimum.
        ([6, 4, 7, 1, 2], [1, 2, 3, 4, 5], 2, 0.25),
        ([1, 2, 3, 4, 5], [1], 5, 1.0),
        # Relevant at places 1, 3 and 5 of 5, three of three found: (1/1 + 2/3 + 3/5) / 3.
        ([1, 9, 2, 8, 3], [1, 2, 3], 5, (1 + 2 / 3 + 3 / 5) / 3),
    ],
)
def test_average_precision_of_published_examples(
    listed: list[int], held_out: list[int], k: int, expected: float
) -> None:
    assert value_of("map", lists(listed), targets_of([held_out], n_items=10), k=k) == pytest.approx(expected)


def test_both_agree_with_the_obvious_loops() -> None:
    recommended, targets = random_problem(3, n_users=60, n_items=40, k=15)
    rows = [targets.rows(user, user + 1).items.tolist() for user in range(60)]

    for k in (1, 5, 15):
        firsts, precisions = [], []
        for listed, row in zip(recommended.tolist(), rows, strict=True):
            if row:
                places = [place for place in range(1, k + 1) if listed[place - 1] in row]
                firsts.append(1 / places[0] if places else 0)
                found = [len([p for p in places if p <= place]) / place for place in places]
                precisions.append(sum(found) / min(k, len(row)))
        assert len(firsts) < len(rows)  # somebody has nothing held out, and is left out
        assert value_of("mrr", recommended, targets, k=k) == pytest.approx(sum(firsts) / len(firsts))
        assert value_of("map", recommended, targets, k=k) == pytest.approx(sum(precisions) / len(precisions))


def test_empty_places_are_no_finds() -> None:
    targets = targets_of([[2]], n_items=3)

    assert value_of("mrr", lists([-1, -1, 2]), targets, k=3) == pytest.approx(1 / 3)
    assert value_of("map", lists([0, -1, -1]), targets, k=3) == 0.0


N_ITEMS = 50
COUNTS = np.random.default_rng(1).integers(0, 40, N_ITEMS)


NOBODY = targets_of([[]] * 30, n_items=N_ITEMS)


def random_lists() -> IndexArray:
    """Of 30 users, 12 places each, the last ones of some empty; one list is empty from its first place."""
    rng = np.random.default_rng(2)
    found = np.stack([rng.permutation(N_ITEMS)[:12] for _ in range(30)]).astype(np.int32)
    found[np.arange(12)[None, :] >= rng.integers(3, 13, 30)[:, None]] = -1
    found[7] = -1
    return found


def listed(recommended: IndexArray, k: int) -> list[list[int]]:
    return [[item for item in row[:k] if item >= 0] for row in recommended.tolist()]


@pytest.mark.parametrize("k", [1, 5, 12])
def test_coverage_is_the_share_of_items_on_any_list(k: int) -> None:
    recommended = random_lists()
    anywhere = {item for row in listed(recommended, k) for item in row}

    value = value_of("coverage", recommended, NOBODY, k=k)

    assert value == pytest.approx(len(anywhere) / N_ITEMS)


@pytest.mark.parametrize("k", [1, 5, 12])
def test_gini_is_half_the_relative_mean_difference(k: int) -> None:
    recommended = random_lists()
    times = Counter(item for row in listed(recommended, k) for item in row)
    number = [times[item] for item in range(N_ITEMS)]
    differences = sum(abs(one - other) for one in number for other in number)

    value = value_of("gini", recommended, NOBODY, k=k)

    assert value == pytest.approx(differences / (2 * N_ITEMS * sum(number)))


@pytest.mark.parametrize("k", [1, 5, 12])
def test_novelty_is_what_the_obvious_loop_says(k: int) -> None:
    recommended = random_lists()
    total = sum(COUNTS.tolist()) + N_ITEMS
    means = [
        sum(-math.log2((COUNTS[item] + 1) / total) for item in row) / len(row)
        for row in listed(recommended, k)
        if row
    ]

    value = value_of("novelty", recommended, NOBODY, k=k, counts=COUNTS)

    assert len(means) == 29
    assert value == pytest.approx(sum(means) / len(means))
