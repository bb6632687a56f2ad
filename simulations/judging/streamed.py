"""Judging on people who do not fit into memory: two passes over a stream, in blocks. Not private: simulation only.

The first counts (how popular items are, how active people), the second judges. Memory is of a block and of tallies
that are no larger than the catalogue; numbers are those of judging in memory to the last bits.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial

from fedboard.simulations.baselines import Predictor
from fedboard.simulations.engine.in_order import JobRunner, in_order
from fedboard.simulations.judging.census import Census
from fedboard.simulations.judging.evaluation import judge_spans
from fedboard.simulations.judging.sample import SampledBlocks
from fedboard.simulations.judging.split_blocks import Span, SplitBlocks
from fedboard.simulations.judging.tallies import Judgement
from fedboard.simulations.streams.problem import StreamedProblem
from fedboard.simulations.streams.split_blocks import BLOCK_RATINGS, StreamBlocks, span_bounds

_KEPT = 2
"""Counts of so many streams and parts are kept: rounds are judged on one part, the last board on another."""
_CENSUSES: OrderedDict[Hashable, Census] = OrderedDict()


def judge_stream(
    predictor: Predictor,
    problem: StreamedProblem,
    *,
    part: str,
    pool: JobRunner,
    judged_users: int | None = None,
    block_ratings: int = BLOCK_RATINGS,
) -> Judgement:
    """What ``evaluation.judge`` says of a problem in memory, of one that is streamed.

    Args:
        predictor: the model.
        problem: private.
        part: ``validation`` or ``test``.
        pool: who computes; a job is a span of users, its result as large as the catalogue at most.
        judged_users: how many are expected to be looked at, None for all. Popularity is then by the ratings of
            these alone too. Each is drawn by a coin of her key; they are the first ones where the stream says that
            its rows are exchangeable, so that the others need not be made.
        block_ratings: at most so many ratings are in memory at once, or one user's.

    Returns:
        Empty where nothing was held out.
    """
    source: SplitBlocks = StreamBlocks(
        stream=problem.stream, splitting=problem.splitting, block_ratings=block_ratings
    )
    n_users, told = source.n_users, {}
    if judged_users is not None and judged_users < source.n_users:
        told = {"users": judged_users, "of": source.n_users}
        if getattr(problem.stream, "exchangeable", False):
            n_users = judged_users
        else:
            source = SampledBlocks(source=source, share=judged_users / source.n_users)
    spans = [Span(source=source, start=start, stop=stop) for start, stop in span_bounds(n_users)]
    census = _census(spans, part, pool, key=(problem.stream.identity, problem.splitting, part, judged_users))
    return replace(judge_spans(predictor, spans, census, part=part, pool=pool), sample=told)


def _census(spans: Sequence[Span], part: str, pool: JobRunner, *, key: Hashable) -> Census:
    """Of the same people once, for all models that are judged on them."""
    if key not in _CENSUSES:
        census: Census | None = None
        for found in in_order(pool, (partial(Census.of_span, span, part) for span in spans)):
            if census is None:
                census = found
            else:
                census.merge(found)
        assert census is not None  # a stream has users
        _CENSUSES[key] = census
        while len(_CENSUSES) > _KEPT:
            _CENSUSES.popitem(last=False)
    return _CENSUSES[key]
