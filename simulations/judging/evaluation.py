"""Judging a model on held-out data, in blocks of users. Every number made here is not private: simulation only."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from fedboard.simulations.datasets.splits import HeldOut, RatingSplit, UserSplit
from fedboard.simulations.engine.pool import JobRunner, in_order
from fedboard.simulations.judging import metrics
from fedboard.simulations.judging.census import Census, ItemBuckets, listed
from fedboard.simulations.judging.split_blocks import InMemoryBlocks, Span, n_held_out
from fedboard.simulations.judging.tallies import NOTHING_JUDGED, Judgement, Tallies, tallies_of_span
from fedboard.simulations.problem import Problem

_USERS_PER_JOB = 8192
_ITEMS_PER_USER = 8
"""Of a job at least: what it returns is of the size of the catalogue."""


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


def judge_ratings(
    predictor: Predictor,
    history: Cohort,
    held_out: Triples,
    *,
    prefix: str,
    pool: JobRunner,
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
    split = RatingSplit(train=history, train_and_validation=history, validation=held_out, test=held_out)
    return _judge_in_memory(predictor, split, part=prefix, pool=pool, counts=counts)


def judge_lists(predictor: Predictor, held_out: HeldOut, *, pool: JobRunner, counts: IntArray) -> Judgement:
    """List metrics of top-k lists for held-out users; arguments as of ``judge_ratings``."""
    n_users = int(held_out.users.max(initial=-1)) + 1
    nothing = Cohort(
        indptr=np.zeros(n_users + 1, dtype=np.int64),
        items=np.zeros(0, dtype=np.int32),
        ratings=np.zeros(0, dtype=np.float32),
        n_items=held_out.history.n_items,
    )
    split = UserSplit(train=nothing, validation=held_out, test=held_out)
    return _judge_in_memory(predictor, split, part="test", pool=pool, counts=counts)


def neighbour_overlap(
    factors: FloatArray, reference: FloatArray, counts: IntArray, *, k: int = 10
) -> list[Any]:
    """Share of each item's k nearest items that non-private ALS finds too, by popularity bucket."""
    if counts.size < 2:  # an only item has no neighbours
        return []
    buckets = metrics.popularity_buckets(counts, n_buckets=min(metrics.N_BUCKETS, counts.size))
    return listed(metrics.overlap_at_k(factors, reference, buckets, k=min(k, factors.shape[0] - 1)))


def judge_board(
    task: Task, board: Board, problem: Problem, *, part: str, pool: JobRunner, backend: str
) -> Judgement:
    """Judge a board on the ``validation`` or ``test`` part. Not private: simulation only."""
    return judge(BoardPredictor(task=task, board=board, backend=backend), problem, part=part, pool=pool)


def judge(predictor: Predictor, problem: Problem, *, part: str, pool: JobRunner) -> Judgement:
    """Judge any model: ratings by error, held-out users by their lists.

    Users' vectors are solved on the training rows for validation, on training and validation rows for test.
    Where nothing was held out there are no metrics: by its coins a part of a small data set may come out empty.
    """
    if n_held_out(problem.split, part) == 0:
        return NOTHING_JUDGED
    return _judge_in_memory(predictor, problem.split, part=part, pool=pool, counts=problem.item_counts)


def _judge_in_memory(
    predictor: Predictor, split: RatingSplit | UserSplit, *, part: str, pool: JobRunner, counts: IntArray
) -> Judgement:
    users_per_span = max(_USERS_PER_JOB, counts.size // _ITEMS_PER_USER)
    spans = InMemoryBlocks(split=split).spans(part, users_per_span=users_per_span)
    census = Census.of_spans(spans, part, item_counts=counts)
    return judge_spans(predictor, spans, census, part=part, pool=pool)


def judge_spans(
    predictor: Predictor, spans: Sequence[Span], census: Census, *, part: str, pool: JobRunner
) -> Judgement:
    """Judge the users of these spans, a job each; their states are merged in the order of the spans.

    So for the same spans the numbers are the same bit for bit, whoever computes.

    Args:
        predictor: the model.
        spans: private.
        census: of the same spans. Private.
        part: ``validation`` or ``test``.
        pool: who computes.

    Returns:
        Empty where nothing is held out.
    """
    if census.activity.n_users == 0:
        return NOTHING_JUDGED
    items, groups = ItemBuckets.of(census.item_counts), census.groups()
    judge_one = partial(tallies_of_span, predictor, part=part, n_groups=census.activity.n_groups, items=items)
    jobs = (partial(judge_one, span, groups[span.start]) for span in spans if span.start in groups)
    found: Tallies | None = None
    for tallies in in_order(pool, jobs):
        if found is None:
            found = tallies
        elif tallies is not None:
            found.merge(tallies)
    assert found is not None  # somebody is judged
    return found.judgement(census, items)
