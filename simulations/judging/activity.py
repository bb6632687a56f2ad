"""Results by users' activity: are people with few ratings served as well as those with many? Not private."""

from collections.abc import Iterable

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.datasets import Triples
from fedboard.simulations.judging import metrics
from fedboard.simulations.judging.metrics.registry import LIST_METRICS, RATING_METRICS

EDGES = "activity_edges"
"""In records: the numbers of ratings between which the groups lie."""


def ratings_by_activity(
    predicted: FloatArray, held_out: Triples, known: IntArray, *, part: str
) -> dict[str, list[float | None]]:
    """Every rating metric within five groups of users, equally many in each, by how many ratings they are known by.

    Users without held-out ratings are in no group. Fewer users than groups make a group each.

    Args:
        predicted: shape (n_held_out,), in the order of ``held_out``.
        held_out: what was to be predicted. Private.
        known: ratings that each user's vector was solved on, shape (n_users,). Private.
        part: ``validation`` or ``test``.

    Returns:
        ``activity_edges`` {6 numbers of ratings} and each metric by group, few ratings first. Not private.
    """
    judged = np.unique(held_out.users)
    group_of_user = np.full(known.size, -1, dtype=np.int32)
    group_of_user[judged] = _groups(known[judged])
    group, actual = group_of_user[held_out.users], held_out.values.astype(np.float64)
    members = [group == number for number in range(group.max() + 1)]
    return _edges(known[judged], group_of_user[judged]) | {
        metric.names(part)[0]: listed([metric.of(predicted[own], actual[own]) for own in members])
        for metric in RATING_METRICS
    }


def lists_by_activity(
    lists: IndexArray, targets: Cohort, known: IntArray, *, counts: IntArray
) -> dict[str, list[float | None]]:
    """Every list metric within such groups; coverage and Gini are of the lists of one group.

    Args:
        lists: int32, shape (n_users, k), best first. Private.
        targets: what was to be found, at least one item per row. Private.
        known: items in each user's history, shape (n_users,). Private.
        counts: training ratings per item, shape (n_items,). Private.

    Returns:
        As ``ratings_by_activity``.
    """
    group_of_user = _groups(known)
    groups = [group_of_user == number for number in range(group_of_user.max() + 1)]
    parts = [(lists[own], _rows(targets, own)) for own in groups]
    return _edges(known, group_of_user) | {
        name: listed([metric.value(shown, wanted, k=k, counts=counts) for shown, wanted in parts])
        for metric in LIST_METRICS
        for name, k in zip(metric.names("test"), metric.at, strict=True)
    }


def listed(values: Iterable[float]) -> list[float | None]:
    """As JSON has them: None for what is not a number."""
    return [None if np.isnan(value) else float(value) for value in values]


def _groups(known: IntArray) -> IndexArray:
    """Cut as the catalogue is cut by popularity: equally many, ties in the order of the rows."""
    return metrics.popularity_buckets(known, n_buckets=min(metrics.N_BUCKETS, known.size))


def _edges(known: IntArray, group_of_user: IndexArray) -> dict[str, list[float | None]]:
    return {EDGES: listed(metrics.bucket_edges(known, group_of_user))}


def _rows(cohort: Cohort, chosen: BoolArray) -> Cohort:
    """Some rows alone, in their order."""
    entries = np.flatnonzero(chosen[cohort.user_of_entry()]) + cohort.indptr[0]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(cohort.counts[chosen])]).astype(np.int64),
        items=cohort.items[entries],
        ratings=cohort.ratings[entries],
        n_items=cohort.n_items,
    )
