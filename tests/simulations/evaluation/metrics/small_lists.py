"""Lists and held-out items that tests of metrics write down."""

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.simulations.evaluation.metrics.metric import JudgedLists, ListMetric
from fedboard.simulations.evaluation.metrics.registry import metric_of


def targets_of(rows: list[list[int]], *, n_items: int) -> Cohort:
    users = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int32)
    items = np.array([item for row in rows for item in row], dtype=np.int32)
    ratings = np.ones(items.size, dtype=np.float32)
    return cohort_from_triples(users, items, ratings, n_users=len(rows), n_items=n_items)


def lists(*rows: list[int]) -> IndexArray:
    return np.array(rows, dtype=np.int32)


def judged(
    recommended: IndexArray,
    targets: Cohort,
    bucket_of_item: IndexArray | None = None,
    *,
    counts: IntArray | None = None,
) -> JudgedLists:
    nobody, alike = np.zeros(targets.n_users, np.int32), np.zeros(targets.n_items, np.int32)
    return JudgedLists.of(
        recommended,
        targets,
        groups=nobody,
        bucket_of_item=alike if bucket_of_item is None else bucket_of_item,
        counts=np.ones(targets.n_items, np.int64) if counts is None else counts,
    )


def value_of(
    name: str, recommended: IndexArray, targets: Cohort, *, k: int, counts: IntArray | None = None
) -> float:
    metric = metric_of(name)
    assert isinstance(metric, ListMetric)
    tally = metric.of(k=k, n_groups=1)
    tally.add(judged(recommended, targets, counts=counts))
    return tally.value()
