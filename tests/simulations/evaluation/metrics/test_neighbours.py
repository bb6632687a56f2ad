"""Buckets of equal item number, from tail to head; cosine neighbours and their overlap."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics.metric import popularity_buckets
from fedboard.simulations.evaluation.metrics.neighbours import (
    cosine_neighbours,
    neighbour_overlap,
    overlap_by_popularity,
)


def test_neighbours_agree_with_the_obvious_loop() -> None:
    factors = np.random.default_rng(1).standard_normal((60, 5))
    units = factors / np.linalg.norm(factors, axis=1, keepdims=True)

    neighbours = cosine_neighbours(factors, k=7)

    for item in range(60):
        cosines = units @ units[item]
        cosines[item] = -np.inf
        assert neighbours[item].tolist() == np.argsort(-cosines, kind="stable")[:7].tolist()


def test_an_item_without_a_vector_has_no_neighbours_and_no_overlap() -> None:
    factors = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])

    neighbours = cosine_neighbours(factors, k=1)

    assert neighbours[1].tolist() == [-1]
    assert neighbour_overlap(neighbours, neighbours).tolist() == [1.0, 0.0, 1.0]


def test_overlap_per_bucket_is_the_mean_over_its_items() -> None:
    rng = np.random.default_rng(2)
    factors, reference = rng.standard_normal((30, 4)), rng.standard_normal((30, 6))
    counts = np.arange(30)
    buckets = popularity_buckets(counts)

    overlap = overlap_by_popularity(factors, reference, counts, k=5)

    for bucket in range(5):
        shares = [
            len(set(mine) & set(theirs)) / 5
            for mine, theirs in zip(
                cosine_neighbours(factors, k=5)[buckets == bucket].tolist(),
                cosine_neighbours(reference, k=5)[buckets == bucket].tolist(),
                strict=True,
            )
        ]
        assert overlap[bucket] == pytest.approx(np.mean(shares))


@pytest.mark.parametrize("k", [0, 3])
def test_k_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(InputError, match="k must be in 1"):
        cosine_neighbours(np.eye(3), k=k)


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
