"""Judging a model on held-out data, in blocks of users, in memory or streamed. Not private: simulation only.

The first pass counts (how popular items are, how active people), the second judges. Memory of a stream is of a
block and of tallies that are no larger than the catalogue; its numbers are those of judging in memory to the last
bits.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.task import Task
from fedboard.simulations.baselines.means import Predictor
from fedboard.simulations.engine.pool import JobRunner, in_order
from fedboard.simulations.evaluation.metrics.registry import metrics_of
from fedboard.simulations.evaluation.split_blocks import (
    BLOCK_RATINGS,
    Span,
    StreamBlocks,
    held_spans,
    n_held_out,
)
from fedboard.simulations.evaluation.tallies import (
    NOTHING_JUDGED,
    Census,
    Judgement,
    Tallies,
    tallies_of_span,
)
from fedboard.simulations.problem import Problem, StreamedProblem

_KEPT = 2
"""Counts of so many streams and parts are kept: rounds are judged on one part, the last board on another."""
_CENSUSES: OrderedDict[Hashable, Census] = OrderedDict()


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


def item_counts_of(problem: Problem | StreamedProblem, pool: JobRunner) -> IntArray:
    """Training ratings per item; of a stream, those of the users who are judged. Not private."""
    if isinstance(problem, Problem):
        return problem.item_counts
    return counted(problem, "test", pool).item_counts


def judge_board(
    task: Task,
    board: Board,
    problem: Problem | StreamedProblem,
    *,
    part: str,
    pool: JobRunner,
    backend: str,
) -> Judgement:
    """Judge a board on the ``validation`` or ``test`` part. Not private: simulation only."""
    return judge(BoardPredictor(task=task, board=board, backend=backend), problem, part=part, pool=pool)


def judge(
    predictor: Predictor,
    problem: Problem | StreamedProblem,
    *,
    part: str,
    pool: JobRunner,
    block_ratings: int = BLOCK_RATINGS,
) -> Judgement:
    """Judge any model: ratings by error, held-out users by their lists.

    Users' vectors are solved on the training rows for validation, on training and validation rows for test.
    Where nothing was held out there are no metrics: by its coins a part of a small data set may come out empty.

    Args:
        predictor: the model.
        problem: private. The ``judged_users`` of a stream are how many are expected to be looked at, None for all.
            Popularity is then by the ratings of these alone too.
        part: ``validation`` or ``test``.
        pool: who computes; a job is a span of users, its result as large as the catalogue at most.
        block_ratings: at most so many ratings of a stream are in memory at once, or one user's.
    """
    spans, sample = _spans(problem, part, block_ratings)
    census = counted(problem, part, pool, block_ratings=block_ratings)
    found = judge_spans(predictor, spans, census, part=part, pool=pool, own=problem.own_metrics)
    return replace(found, sample=sample)


def counted(
    problem: Problem | StreamedProblem, part: str, pool: JobRunner, *, block_ratings: int = BLOCK_RATINGS
) -> Census:
    """How popular items are among the users who are judged, and how active these are; read once for all models.

    Arguments as of ``judge``. Not private: simulation only.
    """
    spans, _ = _spans(problem, part, block_ratings)
    if isinstance(problem, Problem):
        return census_of(spans, part, problem.item_counts)
    key = (problem.stream.identity, problem.splitting, part, problem.judged_users)
    if key not in _CENSUSES:
        census = Census(np.zeros(problem.catalogue.n_items, dtype=np.int64))
        for found in in_order(pool, (partial(Census.of_span, span, part) for span in spans)):
            census.merge(found)
        _CENSUSES[key] = census
        while len(_CENSUSES) > _KEPT:
            _CENSUSES.popitem(last=False)
    return _CENSUSES[key]


def census_of(spans: Sequence[Span], part: str, item_counts: IntArray) -> Census:
    """The same of spans that are in memory, whose items are counted already."""
    census = Census(item_counts)
    for span in spans:
        census.merge(Census.of_span(span, part, count_items=False))
    return census


def _spans(
    problem: Problem | StreamedProblem, part: str, block_ratings: int
) -> tuple[Sequence[Span], dict[str, int]]:
    """A job each, of whoever is judged; and for the record how many of all these are, if not everybody."""
    if isinstance(problem, Problem):
        empty = n_held_out(problem.split, part) == 0
        return [] if empty else held_spans(problem.split, part), {}
    source, of = StreamBlocks.judged(problem, block_ratings), problem.n_users
    asked = problem.judged_users
    return source.spans(), {} if asked is None or asked >= of else {"users": asked, "of": of}


def judge_spans(
    predictor: Predictor,
    spans: Sequence[Span],
    census: Census,
    *,
    part: str,
    pool: JobRunner,
    own: Sequence[str] = (),
) -> Judgement:
    """Judge the users of these spans, a job each; their states are merged in the order of the spans.

    So for the same spans the numbers are the same bit for bit, whoever computes.

    Args:
        predictor: the model.
        spans: private.
        census: of the same spans. Private.
        part: ``validation`` or ``test``.
        pool: who computes.
        own: metrics beside those that are installed, as of ``metrics_of``.

    Returns:
        Empty where nothing is held out.
    """
    if census.n_users == 0:
        return NOTHING_JUDGED
    counts, groups = census.item_counts, census.groups()
    metrics_of(own)  # what jobs send back are states of these
    judge_one = partial(
        tallies_of_span, predictor, part=part, n_groups=census.n_groups, counts=counts, own=own
    )
    jobs = (partial(judge_one, span, groups[span.start]) for span in spans if span.start in groups)
    found: Tallies | None = None
    for tallies in in_order(pool, jobs):
        if found is None:
            found = tallies
        elif tallies is not None:
            found.merge(tallies)
    assert found is not None  # somebody is judged
    return found.judgement(census)
