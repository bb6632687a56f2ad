"""Reciprocal rank and average precision on published examples, and against obvious loops."""

import numpy as np
import pytest

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics import map_at_k, mrr_at_k
from tests.simulations.evaluation.metrics.small_lists import lists, targets_of


def random_problem(seed: int) -> tuple[IndexArray, list[list[int]], Cohort]:
    rng = np.random.default_rng(seed)
    recommended = np.stack([rng.permutation(40)[:15] for _ in range(60)]).astype(np.int32)
    rows = [rng.permutation(40)[: rng.integers(0, 12)].tolist() for _ in range(60)]
    return recommended, rows, targets_of(rows, n_items=40)


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
    assert map_at_k(lists(listed), targets_of([held_out], n_items=10), k=k) == pytest.approx(expected)


def test_both_agree_with_the_obvious_loops() -> None:
    recommended, rows, targets = random_problem(3)

    for k in (1, 5, 15):
        firsts, precisions = [], []
        for listed, row in zip(recommended.tolist(), rows, strict=True):
            if row:
                places = [place for place in range(1, k + 1) if listed[place - 1] in row]
                firsts.append(1 / places[0] if places else 0)
                found = [len([p for p in places if p <= place]) / place for place in places]
                precisions.append(sum(found) / min(k, len(row)))
        assert len(firsts) < len(rows)  # somebody has nothing held out, and is left out
        assert mrr_at_k(recommended, targets, k=k) == pytest.approx(sum(firsts) / len(firsts))
        assert map_at_k(recommended, targets, k=k) == pytest.approx(sum(precisions) / len(precisions))


def test_empty_places_are_no_finds() -> None:
    targets = targets_of([[2]], n_items=3)

    assert mrr_at_k(lists([-1, -1, 2]), targets, k=3) == pytest.approx(1 / 3)
    assert map_at_k(lists([0, -1, -1]), targets, k=3) == 0.0


@pytest.mark.parametrize("metric", [mrr_at_k, map_at_k])
def test_what_cannot_be_judged_is_refused(metric) -> None:
    with pytest.raises(InputError, match="one row per user"):
        metric(lists([0], [1]), targets_of([[0]], n_items=2), k=1)
    with pytest.raises(InputError, match=r"k must be in 1\.\.2"):
        metric(lists([0, 1]), targets_of([[0]], n_items=2), k=3)
    with pytest.raises(InputError, match="at least one held-out item"):
        metric(lists([0]), targets_of([[]], n_items=2), k=1)
