"""Sums over all users of a stream, from which models without privacy are fitted in memory of a block.

A job is a span of users; its sums are added up block by block, and the jobs' in the order of the spans. So memory
is of a block and of a few sums, and the numbers do not depend on who computes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.engine.in_order import JobRunner, in_order

Sums = dict[str, FloatArray]
"""By name, float64. Not private: simulation only."""
AddBlock = Callable[[Cohort, Sums], None]
"""Adds what some users give to sums that begin as zeros."""
Shapes = Mapping[str, tuple[int, ...]]
Bounds = tuple[int, int]


class TrainSource(Protocol):
    """Training rows of any number of users; picklable."""

    @property
    def n_users(self) -> int:
        """Rows are 0..n_users - 1."""

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    def train(self, start: int, stop: int) -> Iterator[Cohort]:
        """Those of users start:stop, a block at a time."""


def summed(
    source: TrainSource, spans: Sequence[Bounds], shapes: Shapes, add_block: AddBlock, *, pool: JobRunner
) -> Sums:
    """Sums over the users of these spans.

    Args:
        source: private.
        spans: (first, one past the last) of each job.
        shapes: of the sums.
        add_block: picklable.
        pool: who computes.
    """
    total = _zeros(shapes)
    jobs = (partial(_of_span, source, span, dict(shapes), add_block) for span in spans)
    for sums in in_order(pool, jobs):
        for name, values in sums.items():
            total[name] += values
    return total


def _of_span(source: TrainSource, span: Bounds, shapes: Shapes, add_block: AddBlock) -> Sums:
    sums = _zeros(shapes)
    for cohort in source.train(*span):
        add_block(cohort, sums)
    return sums


def _zeros(shapes: Shapes) -> Sums:
    return {name: np.zeros(shape) for name, shape in shapes.items()}
