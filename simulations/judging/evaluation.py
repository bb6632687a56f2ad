"""Judging a model on held-out data, in blocks of users. Every number made here is not private: simulation only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.task import Task
from fedboard.simulations.baselines import Predictor
from fedboard.simulations.datasets import Triples
from fedboard.simulations.datasets.splits import HeldOut, RatingSplit
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.judging import metrics
from fedboard.simulations.judging.activity import listed, lists_by_activity, ratings_by_activity
from fedboard.simulations.judging.metrics.metric import LONGEST_LIST
from fedboard.simulations.judging.metrics.registry import LIST_METRICS, RATING_METRICS
from fedboard.simulations.problem import Problem

_USERS_PER_JOB = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardPredictor:
    """What a device does with a board: solve its own vector, score, rank."""

    task: Task
    board: Board
    backend: str

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings, float64, shape (n_pairs,)."""
        return self.task.predict(self.task.fit_local(history, self.board), self.board, users, items)

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Best items outside the history, int32, shape (n_users, k)."""
        users, items = self.task.ranking_factors(self.task.fit_local(history, self.board), self.board)
        return kernels.top_k(
            users,
            items,
            k=k,
            exclude_indptr=history.indptr,
            exclude_items=history.items,
            backend=self.backend,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Metrics of one model, with the same by popularity bucket (tail to head) and by users' activity."""

    metrics: Mapping[str, float]
    sliced: Mapping[str, Any]
    by_activity: Mapping[str, Any]
    """As from ``fedboard.simulations.judging.activity``; empty where nothing was judged."""
    of_head: Mapping[str, Any] = field(default_factory=dict)
    """By popularity bucket of the most popular tenth of the items, for lists."""

    def record(self) -> dict[str, Any]:
        """As a run keeps it."""
        told = {
            "metrics": dict(self.metrics),
            "sliced": dict(self.sliced),
            "by_activity": dict(self.by_activity),
        }
        return {**told, "of_head": dict(self.of_head)} if self.of_head else told


def judge_ratings(
    predictor: Predictor,
    history: Cohort,
    held_out: Triples,
    *,
    prefix: str,
    pool: WorkerPool,
    counts: IntArray,
) -> Judgement:
    """Rating metrics over all held-out ratings, and by popularity bucket where they can.

    Args:
        predictor: the model.
        history: the rows from which each user's vector is solved.
        held_out: ratings to predict, sorted by user.
        prefix: ``validation`` or ``test``.
        pool: who computes.
        counts: training ratings per item, int64, shape (n_items,).
    """
    bounds = np.searchsorted(held_out.users, np.arange(history.n_users + 1))
    jobs = []
    for start, stop in _blocks(history.n_users):
        rows = slice(int(bounds[start]), int(bounds[stop]))
        users = (held_out.users[rows] - start).astype(np.int32)
        jobs.append(partial(_predict, predictor, history.rows(start, stop), users, held_out.items[rows]))
    predicted = np.concatenate(pool.run(jobs))
    actual = held_out.values.astype(np.float64)
    buckets = _buckets(counts)
    return Judgement(
        metrics={m.names(prefix)[0]: m.of(predicted, actual) for m in RATING_METRICS},
        sliced={
            "bucket_edges": metrics.bucket_edges(counts, buckets).tolist(),
            **{
                m.sliced_name(prefix): listed(m.sliced(predicted, actual, held_out.items, buckets))
                for m in RATING_METRICS
                if m.sliced is not None
            },
        },
        by_activity=ratings_by_activity(predicted, held_out, history.counts, part=prefix),
    )


def judge_lists(predictor: Predictor, held_out: HeldOut, *, pool: WorkerPool, counts: IntArray) -> Judgement:
    """List metrics of top-k lists for users who took no part in training.

    In a catalogue of fewer than ``LONGEST_LIST`` items the rest of each list stays empty.
    """
    jobs = [
        partial(_recommend, predictor, held_out.history.rows(start, stop), LONGEST_LIST)
        for start, stop in _blocks(held_out.history.n_users)
    ]
    lists = np.concatenate(pool.run(jobs))
    buckets = _buckets(counts)
    target = held_out.target
    return Judgement(
        metrics={
            name: m.value(lists, target, k=k, counts=counts)
            for m in LIST_METRICS
            for name, k in zip(m.names("test"), m.at, strict=True)
        },
        sliced={
            "bucket_edges": metrics.bucket_edges(counts, buckets).tolist(),
            **{
                m.sliced_name("test"): listed(m.sliced(lists, target, buckets))
                for m in LIST_METRICS
                if m.sliced is not None
            },
        },
        by_activity=lists_by_activity(lists, target, held_out.history.counts, counts=counts),
        of_head={"recall": listed(metrics.recall_of_head(lists, target, counts))},
    )


def neighbour_overlap(
    factors: FloatArray, reference: FloatArray, counts: IntArray, *, k: int = 10
) -> list[Any]:
    """Share of each item's k nearest items that non-private ALS finds too, by popularity bucket."""
    buckets = _buckets(counts)
    if counts.size < 2:  # an only item has no neighbours
        return []
    return listed(metrics.overlap_at_k(factors, reference, buckets, k=min(k, factors.shape[0] - 1)))


def item_counts(train: Cohort) -> IntArray:
    """Exact training ratings per item, int64, shape (n_items,). Not private: for judging only."""
    return np.bincount(train.items, minlength=train.n_items).astype(np.int64)


def _buckets(counts: IntArray) -> IndexArray:
    """Five popularity buckets, or one per item of a tiny catalogue."""
    return metrics.popularity_buckets(counts, n_buckets=min(metrics.N_BUCKETS, counts.size))


def _blocks(n_users: int) -> Sequence[tuple[int, int]]:
    return [(start, min(start + _USERS_PER_JOB, n_users)) for start in range(0, n_users, _USERS_PER_JOB)]


def _predict(predictor: Predictor, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
    predicted: FloatArray = predictor.predict(history, users, items)
    return predicted


def _recommend(predictor: Predictor, history: Cohort, k: int) -> IndexArray:
    lists: IndexArray = predictor.recommend(history, k=k)
    return lists


def judge_board(
    task: Task, board: Board, problem: Problem, *, part: str, pool: WorkerPool, backend: str
) -> Judgement:
    """Judge a board on the ``validation`` or ``test`` part. Not private: simulation only."""
    return judge(BoardPredictor(task=task, board=board, backend=backend), problem, part=part, pool=pool)


def judge(predictor: Predictor, problem: Problem, *, part: str, pool: WorkerPool) -> Judgement:
    """Judge any model: ratings by error, held-out users by their lists.

    Users' vectors are solved on the training rows for validation, on training and validation rows for test.
    Where nothing was held out there are no metrics: by its coins a part of a small data set may come out empty.
    """
    split, counts = problem.split, item_counts(problem.train)
    if not isinstance(split, RatingSplit):
        held_out = split.validation if part == "validation" else split.test
        if held_out.users.size == 0:
            return Judgement(metrics={}, sliced={}, by_activity={})
        return judge_lists(predictor, held_out, pool=pool, counts=counts)
    held_out_ratings = split.validation if part == "validation" else split.test
    history = split.train if part == "validation" else split.train_and_validation
    if held_out_ratings.n_ratings == 0:
        return Judgement(metrics={}, sliced={}, by_activity={})
    return judge_ratings(predictor, history, held_out_ratings, prefix=part, pool=pool, counts=counts)
