"""Judging on people who do not fit into memory: two passes over a stream, in blocks. Not private: simulation only.

The first counts (how popular items are, how active people), the second judges. Memory is of a block and of tallies
that are no larger than the catalogue; numbers are those of judging in memory to the last bits.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from fedboard.common.cohort import Cohort
from fedboard.simulations.baselines import Predictor
from fedboard.simulations.engine.pool import JobRunner, in_order
from fedboard.simulations.judging.census import Census, SampledBlocks
from fedboard.simulations.judging.distributions import MOST_USERS
from fedboard.simulations.judging.evaluation import judge, judge_spans
from fedboard.simulations.judging.split_blocks import Span, SplitBlocks
from fedboard.simulations.judging.tallies import Judgement
from fedboard.simulations.problem import Problem
from fedboard.simulations.streams.problem import StreamedProblem
from fedboard.simulations.streams.split_blocks import BLOCK_RATINGS, StreamBlocks, span_bounds

_KEPT = 2
"""Counts of so many streams and parts are kept: rounds are judged on one part, the last board on another."""
_CENSUSES: OrderedDict[Hashable, Census] = OrderedDict()


def judge_any(
    predictor: Predictor, problem: Problem | StreamedProblem, *, part: str, pool: JobRunner
) -> Judgement:
    """Judge any model, on people in memory or streamed."""
    if isinstance(problem, StreamedProblem):
        return judge_stream(predictor, problem, part=part, pool=pool)
    return judge(predictor, problem, part=part, pool=pool)


def judge_stream(
    predictor: Predictor,
    problem: StreamedProblem,
    *,
    part: str,
    pool: JobRunner,
    block_ratings: int = BLOCK_RATINGS,
) -> Judgement:
    """What ``evaluation.judge`` says of a problem in memory, of one that is streamed.

    Args:
        predictor: the model.
        problem: private. Its ``judged_users`` are how many are expected to be looked at, None for all. Popularity
            is then by the ratings of these alone too. Each is drawn by a coin of her key; they are the first ones
            where the stream says that its rows are exchangeable, so that the others need not be made.
        part: ``validation`` or ``test``.
        pool: who computes; a job is a span of users, its result as large as the catalogue at most.
        block_ratings: at most so many ratings are in memory at once, or one user's.

    Returns:
        Empty where nothing was held out.
    """
    looked_at = _LookedAt.of(problem, block_ratings)
    census = counted(problem, part, pool, block_ratings=block_ratings)
    found = judge_spans(predictor, looked_at.spans(), census, part=part, pool=pool)
    return replace(found, sample=looked_at.sample)


def counted(
    problem: StreamedProblem, part: str, pool: JobRunner, *, block_ratings: int = BLOCK_RATINGS
) -> Census:
    """How popular items are among the users who are judged, and how active these are; read once for all models.

    Arguments as of ``judge_stream``. Not private: simulation only.
    """
    key = (problem.stream.identity, problem.splitting, part, problem.judged_users)
    if key not in _CENSUSES:
        census = Census(np.zeros(problem.catalogue.n_items, dtype=np.int64))
        spans = _LookedAt.of(problem, block_ratings).spans()
        for found in in_order(pool, (partial(Census.of_span, span, part) for span in spans)):
            census.merge(found)
        _CENSUSES[key] = census
        while len(_CENSUSES) > _KEPT:
            _CENSUSES.popitem(last=False)
    return _CENSUSES[key]


def first_train_rows(problem: StreamedProblem) -> Iterator[Cohort]:
    """What the first users gave to a board, a block at a time. Private."""
    source = StreamBlocks(stream=problem.stream, splitting=problem.splitting)
    return source.train(0, min(MOST_USERS, source.n_users))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookedAt:
    """Whom a judgement is about."""

    source: SplitBlocks
    n_users: int
    """The first so many rows of the source."""
    sample: Mapping[str, int]
    """For the record; empty where it is everybody."""

    @classmethod
    def of(cls, problem: StreamedProblem, block_ratings: int) -> Self:
        """Everybody, the first rows, or whom coins have drawn."""
        source = StreamBlocks(stream=problem.stream, splitting=problem.splitting, block_ratings=block_ratings)
        asked, of = problem.judged_users, source.n_users
        if asked is None or asked >= of:
            return cls(source=source, n_users=of, sample={})
        sample = {"users": asked, "of": of}
        if getattr(problem.stream, "exchangeable", False):
            return cls(source=source, n_users=asked, sample=sample)
        return cls(source=SampledBlocks(source=source, share=asked / of), n_users=of, sample=sample)

    def spans(self) -> list[Span]:
        """A job each."""
        return [Span(source=self.source, start=a, stop=b) for a, b in span_bounds(self.n_users)]
