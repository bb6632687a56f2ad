"""Buckets of equal item number, from tail to head."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics import popularity_buckets


def test_items_are_cut_into_equal_parts_by_count() -> None:
    counts = np.array([50, 1, 40, 2, 30, 3, 20, 4, 10, 5])

    buckets = popularity_buckets(counts)

    assert buckets.tolist() == [4, 0, 4, 0, 3, 1, 3, 1, 2, 2]
    assert buckets.dtype == np.int32


def test_left_over_items_go_to_the_buckets_nearest_the_tail() -> None:
    buckets = popularity_buckets(np.arange(12))

    assert np.bincount(buckets).tolist() == [3, 3, 2, 2, 2]


@pytest.mark.parametrize("n_buckets", [0, 4])
def test_more_buckets_than_items_or_none_at_all_are_refused(n_buckets: int) -> None:
    with pytest.raises(InputError, match="n_buckets must be in 1"):
        popularity_buckets(np.array([1, 2, 3]), n_buckets=n_buckets)
