"""Coverage, Gini index and novelty on lists that one can check by hand, and against obvious loops."""

import math
from collections import Counter

import numpy as np
import pytest

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics import coverage_at_k, gini_at_k, novelty_at_k
from tests.simulations.evaluation.metrics.small_lists import lists, targets_of

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


def of_even_counts(recommended: IndexArray, targets: Cohort, *, k: int) -> float:
    return novelty_at_k(recommended, targets, k=k, counts=np.ones(targets.n_items, dtype=np.int64))


@pytest.mark.parametrize("metric", [coverage_at_k, gini_at_k, of_even_counts])
def test_what_does_not_pair_up_is_refused(metric) -> None:
    with pytest.raises(InputError, match="one row per user"):
        metric(lists([0], [1]), nobody_held_out(1, 2), k=1)
    with pytest.raises(InputError, match=r"k must be in 1\.\.2"):
        metric(lists([0, 1]), nobody_held_out(1, 2), k=3)
