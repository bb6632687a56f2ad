"""Coverage, Gini index and novelty on lists that one can check by hand, and against obvious loops."""

import math
from collections import Counter

import numpy as np
import pytest

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.judging.metrics import coverage_at_k, gini_at_k, novelty_at_k
from tests.simulations.judging.metrics.small_lists import lists, targets_of

N_ITEMS = 50
COUNTS = np.random.default_rng(1).integers(0, 40, N_ITEMS)


def nobody_held_out(n_users: int, n_items: int) -> Cohort:
    return targets_of([[]] * n_users, n_items=n_items)


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

    value = coverage_at_k(recommended, nobody_held_out(30, N_ITEMS), k=k)

    assert value == pytest.approx(len(anywhere) / N_ITEMS)


@pytest.mark.parametrize("k", [1, 5, 12])
def test_gini_is_half_the_relative_mean_difference(k: int) -> None:
    recommended = random_lists()
    times = Counter(item for row in listed(recommended, k) for item in row)
    number = [times[item] for item in range(N_ITEMS)]
    differences = sum(abs(one - other) for one in number for other in number)

    value = gini_at_k(recommended, nobody_held_out(30, N_ITEMS), k=k)

    assert value == pytest.approx(differences / (2 * N_ITEMS * sum(number)))


def test_gini_of_one_to_five_and_at_its_ends() -> None:
    # Items 0..4 listed once to five times: the textbook value of 1, 2, 3, 4, 5 is 4/15.
    once_to_five = lists(*[[item] for item in range(5) for _ in range(item + 1)])

    assert gini_at_k(once_to_five, nobody_held_out(15, 5), k=1) == pytest.approx(4 / 15)
    assert gini_at_k(lists([0, 1], [2, 3]), nobody_held_out(2, 4), k=2) == pytest.approx(0.0)
    assert gini_at_k(lists([3], [3]), nobody_held_out(2, 4), k=1) == pytest.approx(1 - 1 / 4)
    assert math.isnan(gini_at_k(lists([-1]), nobody_held_out(1, 4), k=1))


@pytest.mark.parametrize("k", [1, 5, 12])
def test_novelty_is_what_the_obvious_loop_says(k: int) -> None:
    recommended = random_lists()
    total = sum(COUNTS.tolist()) + N_ITEMS
    means = [
        sum(-math.log2((COUNTS[item] + 1) / total) for item in row) / len(row)
        for row in listed(recommended, k)
        if row
    ]

    value = novelty_at_k(recommended, nobody_held_out(30, N_ITEMS), k=k, counts=COUNTS)

    assert len(means) == 29
    assert value == pytest.approx(sum(means) / len(means))


def test_novelty_counts_bits() -> None:
    nobody = nobody_held_out(1, 4)

    # Eight items' worth of ratings with the ones added: 4, 2, 1 and 1 of 8 are 1, 2, 3 and 3 bits.
    counts = np.array([3, 1, 0, 0])
    for item, bits in enumerate((1, 2, 3, 3)):
        assert novelty_at_k(lists([item]), nobody, k=1, counts=counts) == pytest.approx(bits)
    assert novelty_at_k(lists([1, 3]), nobody, k=2, counts=np.full(4, 7)) == pytest.approx(2)
    assert math.isnan(novelty_at_k(lists([-1]), nobody, k=1, counts=counts))


def of_even_counts(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    return novelty_at_k(recommended, targets, k=k, counts=np.ones(targets.n_items, dtype=np.int64))


@pytest.mark.parametrize("metric", [coverage_at_k, gini_at_k, of_even_counts])
def test_what_does_not_pair_up_is_refused(metric) -> None:
    with pytest.raises(InputError, match="one row per user"):
        metric(lists([0], [1]), nobody_held_out(1, 2), k=1)
    with pytest.raises(InputError, match=r"k must be in 1\.\.2"):
        metric(lists([0, 1]), nobody_held_out(1, 2), k=3)


def test_counts_of_another_catalogue_are_refused() -> None:
    with pytest.raises(InputError, match=r"one count per item: 4 items, counts \(3,\)"):
        novelty_at_k(lists([0]), nobody_held_out(1, 4), k=1, counts=np.ones(3, dtype=np.int64))
