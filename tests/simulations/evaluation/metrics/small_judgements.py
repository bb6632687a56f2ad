"""Judging a model on rows that a test has written down, beside counts of its own."""

from fedboard.common.arrays import IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.baselines.means import Predictor
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import HeldOut, RatingSplit, UserSplit
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.evaluation.evaluation import census_of, judge_spans
from fedboard.simulations.evaluation.split_blocks import held_spans
from fedboard.simulations.evaluation.tallies import Judgement


def judge_held_out(
    model: Predictor, history: Cohort, held_out: Triples | HeldOut, *, counts: IntArray, part: str = "test"
) -> Judgement:
    if isinstance(held_out, HeldOut):
        split = UserSplit(train=history, validation=held_out, test=held_out)
    else:
        split = RatingSplit(train=history, train_and_validation=history, validation=held_out, test=held_out)
    spans = held_spans(split, part)
    with WorkerPool(1) as pool:
        return judge_spans(model, spans, census_of(spans, part, counts), part=part, pool=pool)
