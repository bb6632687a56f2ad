"""Judging on tiny catalogues, where there are fewer items than popularity buckets."""

import numpy as np
import pytest

from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.simulations.baselines import LocalModel
from fedboard.simulations.datasets import Triples
from fedboard.simulations.datasets.splits import HeldOut
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.judging.evaluation import judge_lists, judge_ratings, neighbour_overlap


def everybody_rated_everything(n_users: int, n_items: int) -> Cohort:
    users, items = np.divmod(np.arange(n_users * n_items, dtype=np.int32), np.int32(n_items))
    ratings = (1 + (users + items) % 5).astype(np.float32)
    return cohort_from_triples(users, items, ratings, n_users=n_users, n_items=n_items)


@pytest.mark.parametrize("n_items", [1, 3, 5])
def test_a_tiny_catalogue_has_a_bucket_per_item(n_items: int) -> None:
    rows = everybody_rated_everything(4, n_items)
    triples = Triples(users=rows.user_of_entry(), items=rows.items, values=rows.ratings)
    model = LocalModel(n_items=n_items, rating_range=(1.0, 5.0))

    with WorkerPool(1) as pool:
        judged = judge_ratings(
            model, rows, triples, prefix="test", pool=pool, counts=np.arange(1, n_items + 1, dtype=np.int64)
        )

    assert len(judged.sliced["test_rmse"]) == n_items
    assert judged.metrics["test_rmse"] > 0


def test_lists_are_judged_on_a_tiny_catalogue() -> None:
    history = everybody_rated_everything(4, 3).where(np.tile([True, False, False], 4))
    target = everybody_rated_everything(4, 3).where(np.tile([False, True, False], 4))
    held_out = HeldOut(users=np.arange(4, dtype=np.int32), history=history, target=target)
    model = LocalModel(n_items=3, rating_range=(1.0, 5.0))

    with WorkerPool(1) as pool:
        judged = judge_lists(model, held_out, pool=pool, counts=np.ones(3, dtype=np.int64))

    assert len(judged.sliced["recall"]) == 3


def test_novelty_is_judged_by_the_training_counts_that_are_given() -> None:
    rows = everybody_rated_everything(4, 2)
    held_out = HeldOut(
        users=np.arange(4, dtype=np.int32),
        history=rows.where(np.tile([True, False], 4)),
        target=rows.where(np.tile([False, True], 4)),
    )

    # All there is to list is item 1, which has one of four ratings with the ones added: two bits.
    with WorkerPool(1) as pool:
        model = LocalModel(n_items=2, rating_range=(1.0, 5.0))
        judged = judge_lists(model, held_out, pool=pool, counts=np.array([2, 0], dtype=np.int64))

    assert judged.metrics["novelty@20"] == pytest.approx(2.0)
    assert judged.metrics["coverage@20"] == pytest.approx(1 / 2)
    assert judged.metrics["gini@20"] == pytest.approx(1 / 2)
    assert judged.metrics["mrr@10"] == judged.metrics["map@10"] == 1.0


def test_an_only_item_has_no_neighbours() -> None:
    assert neighbour_overlap(np.ones((1, 2)), np.ones((1, 2)), np.ones(1, dtype=np.int64)) == []
