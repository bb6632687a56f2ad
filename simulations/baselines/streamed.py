"""Sums over all users of a stream, from which models without privacy are fitted in memory of a block.

A job is a span of users; its sums are added up block by block, and the jobs' in the order of the spans. So memory
is of a block and of a few sums, and the numbers do not depend on who computes.

Models without privacy of people who do not fit into memory: the same as in memory, from sums over a stream.

Item means, popularity and biases are those of the fit in memory to the last bits. ALS has the same updates, its
item sums in float64. Where there are very many users first sweeps look at some of them, the last ones at all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.als import AlsModel, first_model, ridge_of
from fedboard.simulations.baselines.als_config import AlsConfig
from fedboard.simulations.baselines.als_sums import add_item_sums, item_sum_shapes, solve_items
from fedboard.simulations.baselines.means import (
    DEFAULT_STRENGTH,
    BiasConfig,
    BiasModel,
    ItemMeanModel,
    PopularityModel,
)
from fedboard.simulations.engine.pool import JobRunner, in_order

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


MOST_USERS_AT_FIRST = 1 << 20
"""On whom sweeps begin where there are more."""
_LAST_SWEEPS = 4
"""On everybody: sweeps on some of them have come close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedTrain:
    """Training rows that are read in blocks, how they are cut into jobs, and who does these."""

    source: TrainSource
    spans: Sequence[Bounds]
    pool: JobRunner

    def first_spans(self) -> Sequence[Bounds]:
        """Those of the first users: as many as sweeps begin on."""
        return [span for span in self.spans if span[0] < MOST_USERS_AT_FIRST]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StreamedCounts:
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


def count_stream(train: StreamedTrain) -> StreamedCounts:
    """One pass over the users."""
    return _counts(train, train.spans)


def streamed_item_mean(
    counts: StreamedCounts, *, rating_range: tuple[float, float], strength: float = DEFAULT_STRENGTH
) -> ItemMeanModel:
    """As ``fit_item_mean``."""
    residuals = counts.item_sums - counts.mean * counts.item_counts
    means = counts.mean + residuals / (counts.item_counts + strength)
    return ItemMeanModel(item_means=np.clip(means, *rating_range))


def streamed_popularity(counts: StreamedCounts) -> PopularityModel:
    """As ``fit_popularity``."""
    return PopularityModel(item_counts=counts.item_counts)


def streamed_bias(train: StreamedTrain, counts: StreamedCounts, config: BiasConfig) -> BiasModel:
    """As ``fit_bias``: a pass for each sweep, users' biases made anew in each block."""
    model = BiasModel(config=config, mean=counts.mean, item_biases=np.zeros(counts.item_counts.size))
    for spans, own in _sweeps(train, counts, config.sweeps):
        shapes = {"residuals": model.item_biases.shape}
        sums = summed(train.source, spans, shapes, partial(_add_residuals, model), pool=train.pool)
        model = replace(model, item_biases=sums["residuals"] / (own.item_counts + config.item_ridge))
    return model


def streamed_als(train: StreamedTrain, counts: StreamedCounts, config: AlsConfig) -> AlsModel:
    """As ``fit_als``: a pass for each sweep, users' vectors made anew in each block.

    Raises:
        InputError: no ratings, or a catalogue and rank whose sums a worker cannot hold.
    """
    model = first_model(counts.mean, counts.item_counts.size, replace(config, threads=1))
    shapes = item_sum_shapes(model)
    for spans, own in _sweeps(train, counts, config.sweeps):
        sums = summed(train.source, spans, shapes, partial(add_item_sums, model), pool=train.pool)
        ridge = ridge_of(own.item_counts, own.n_active, config.item_ridge, config.item_ridge_exponent, config)
        model = replace(model, item_coordinates=solve_items(sums, ridge, own.item_counts, config))
    return replace(model, config=config)


def _sweeps(
    train: StreamedTrain, counts: StreamedCounts, number: int
) -> list[tuple[Sequence[Bounds], StreamedCounts]]:
    """Over whom each sweep goes, with the counts of these."""
    if train.source.n_users <= MOST_USERS_AT_FIRST or number <= _LAST_SWEEPS:
        return [(train.spans, counts)] * number
    first = train.first_spans()
    begin = [(first, _counts(train, first))] * (number - _LAST_SWEEPS)
    return [*begin, *[(train.spans, counts)] * _LAST_SWEEPS]


def _counts(train: StreamedTrain, spans: Sequence[Bounds]) -> StreamedCounts:
    n_items = train.source.n_items
    shapes = {"counts": (n_items,), "ratings": (n_items,), "active": (1,)}
    sums = summed(train.source, spans, shapes, _add_counts, pool=train.pool)
    return StreamedCounts(
        item_counts=sums["counts"], item_sums=sums["ratings"], n_active=int(sums["active"][0])
    )


def _add_counts(cohort: Cohort, sums: Sums) -> None:
    sums["counts"] += np.bincount(cohort.items, minlength=cohort.n_items)
    sums["ratings"] += np.bincount(cohort.items, weights=cohort.ratings, minlength=cohort.n_items)
    sums["active"] += np.count_nonzero(cohort.counts)


def _add_residuals(model: BiasModel, cohort: Cohort, sums: Sums) -> None:
    residuals = cohort.ratings - model.mean - model.fit_local(cohort)[cohort.user_of_entry()]
    sums["residuals"] += np.bincount(cohort.items, weights=residuals, minlength=cohort.n_items)
