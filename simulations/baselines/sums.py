"""Sums over all users, from which models without privacy are fitted: in memory, or block by block of a stream.

A job is a span of users; its sums are added up block by block, and the jobs' in the order of the spans. So memory
is of a block and of a few sums, and the numbers do not depend on who computes. Where there are very many users
first sweeps look at some of them, the last ones at all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.engine.pool import JobRunner, WorkerPool, in_order

Sums = dict[str, FloatArray]
"""By name, float64. Not private: simulation only."""
AddBlock = Callable[[Cohort, Sums], None]
"""Adds what some users give to sums that begin as zeros."""
Shapes = Mapping[str, tuple[int, ...]]
Bounds = tuple[int, int]
MOST_USERS_AT_FIRST = 1 << 20
"""On whom sweeps begin where there are more."""
_LAST_SWEEPS = 4
"""On everybody: sweeps on some of them have come close."""


ReadRows = Callable[[int, int], Iterator[Cohort]]
"""Training rows of users start:stop, a block at a time; picklable."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Counts:
    """How much there is of what. Not private: simulation only."""

    item_counts: FloatArray
    """Training ratings per item, whole numbers, shape (n_items,)."""
    item_sums: FloatArray
    """Of their ratings, stars, shape (n_items,)."""
    n_active: int
    """Users with training ratings."""

    @property
    def n_ratings(self) -> int:
        """Training ratings."""
        return int(self.item_counts.sum())

    @property
    def mean(self) -> float:
        """Of all ratings, stars.

        Raises:
            InputError: there are none.
        """
        if not self.n_ratings:
            raise InputError("a baseline needs at least one training rating; check the split")
        return float(self.item_sums.sum()) / self.n_ratings


class TrainRows:
    """Training rows that are read in blocks, how they are cut into jobs, and who does these."""

    def __init__(self, read: ReadRows, spans: Sequence[Bounds], *, n_items: int, pool: JobRunner) -> None:
        """Read nothing yet.

        Args:
            read: what is read is private.
            spans: (first, one past the last) of each job, ascending.
            n_items: size of the catalogue.
            pool: who computes.
        """
        self.read, self.spans, self.n_items, self.pool = read, spans, n_items, pool

    @staticmethod
    def of(rows: "Cohort | TrainRows") -> "TrainRows":
        """Rows that are in memory, in one block, summed in this process; or what they are already."""
        if isinstance(rows, TrainRows):
            return rows
        whole = partial(_in_one_block, rows)
        return TrainRows(whole, [(0, rows.n_users)], n_items=rows.n_items, pool=WorkerPool(1))

    @cached_property
    def counts(self) -> Counts:
        """Of all users; one pass over them."""
        return self._counted(self.spans)

    def summed(self, shapes: Shapes, add_block: AddBlock, spans: Sequence[Bounds] | None = None) -> Sums:
        """Sums over users.

        Args:
            shapes: of the sums.
            add_block: picklable.
            spans: whose; None for everybody.
        """
        total = _zeros(shapes)
        asked = self.spans if spans is None else spans
        jobs = (partial(_of_span, self.read, span, dict(shapes), add_block) for span in asked)
        for sums in in_order(self.pool, jobs):
            for name, values in sums.items():
                total[name] += values
        return total

    def sweeps(self, number: int) -> list[tuple[Sequence[Bounds], Counts]]:
        """Over whom each of so many sweeps goes, with the counts of these."""
        if self.spans[-1][1] <= MOST_USERS_AT_FIRST or number <= _LAST_SWEEPS:
            return [(self.spans, self.counts)] * number
        first = [span for span in self.spans if span[0] < MOST_USERS_AT_FIRST]
        begin = [(first, self._counted(first))] * (number - _LAST_SWEEPS)
        return [*begin, *[(self.spans, self.counts)] * _LAST_SWEEPS]

    def _counted(self, spans: Sequence[Bounds]) -> Counts:
        shapes = {"counts": (self.n_items,), "ratings": (self.n_items,), "active": (1,)}
        sums = self.summed(shapes, _add_counts, spans)
        return Counts(item_counts=sums["counts"], item_sums=sums["ratings"], n_active=int(sums["active"][0]))


def _in_one_block(rows: Cohort, start: int, stop: int) -> Iterator[Cohort]:
    yield rows.rows(start, stop)


def _of_span(read: ReadRows, span: Bounds, shapes: Shapes, add_block: AddBlock) -> Sums:
    sums = _zeros(shapes)
    for cohort in read(*span):
        add_block(cohort, sums)
    return sums


def _zeros(shapes: Shapes) -> Sums:
    return {name: np.zeros(shape) for name, shape in shapes.items()}


def _add_counts(cohort: Cohort, sums: Sums) -> None:
    sums["counts"] += np.bincount(cohort.items, minlength=cohort.n_items)
    sums["ratings"] += np.bincount(cohort.items, weights=cohort.ratings, minlength=cohort.n_items)
    sums["active"] += np.count_nonzero(cohort.counts)
