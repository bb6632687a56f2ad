"""All metrics of one judgement, of the users seen so far: added to block by block, and merged. Not private."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from fedboard.common.arrays import IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.baselines import Predictor
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import HeldOut
from fedboard.simulations.evaluation.census import EDGES, ActivityGroup, Census, ItemBuckets, listed
from fedboard.simulations.evaluation.metrics.metric import (
    LONGEST_LIST,
    JudgedLists,
    JudgedRatings,
    ListMetric,
    RatingMetric,
    Tally,
)
from fedboard.simulations.evaluation.metrics.ranking import SlicedRecalls
from fedboard.simulations.evaluation.metrics.registry import metrics_of
from fedboard.simulations.evaluation.split_blocks import Span, held_out_of, judged_users


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Metrics of one model, with the same by popularity bucket (tail to head) and by users' activity."""

    metrics: Mapping[str, float]
    sliced: Mapping[str, Any]
    by_activity: Mapping[str, Any]
    """As from ``fedboard.simulations.evaluation.census``; empty where nothing was judged."""
    of_head: Mapping[str, Any] = field(default_factory=dict)
    """By popularity bucket of the most popular tenth of the items, for lists."""
    sample: Mapping[str, Any] = field(default_factory=dict)
    """Of how many users all this is, and how they were drawn; empty: of all of them."""

    def record(self) -> dict[str, Any]:
        """As a run keeps it."""
        told = {
            "metrics": dict(self.metrics),
            "sliced": dict(self.sliced),
            "by_activity": dict(self.by_activity),
        }
        more = {"of_head": self.of_head, "sample": self.sample}
        return {**told, **{name: dict(values) for name, values in more.items() if values}}


NOTHING_JUDGED = Judgement(metrics={}, sliced={}, by_activity={})
"""Of a part into which nothing fell."""


class Tallies(Protocol):
    """Of ratings or of lists."""

    def merge(self, other: Self) -> None:
        """Take in what another job has seen."""

    def judgement(self, census: Census, items: ItemBuckets) -> Judgement:
        """What it comes to."""


class RatingTallies:
    """Every rating metric: overall, by popularity where it can be, by users' activity."""

    def __init__(self, part: str, *, n_groups: int, items: ItemBuckets, own: Sequence[str] = ()) -> None:
        """Nothing seen yet; ``part`` is ``validation`` or ``test``, ``own`` as of ``metrics_of``."""
        metrics = [metric for metric in metrics_of(own) if isinstance(metric, RatingMetric)]
        self._whole: dict[str, Tally[JudgedRatings]] = {m.names(part)[0]: m.of(n_groups) for m in metrics}
        self._sliced: dict[str, Tally[JudgedRatings]] = {
            m.sliced_name(part): m.sliced(items.n_buckets) for m in metrics if m.sliced is not None
        }

    def add(
        self,
        predictor: Predictor,
        history: Cohort,
        held_out: Triples,
        *,
        groups: IndexArray,
        items: ItemBuckets,
    ) -> None:
        """Predict the held-out ratings of a block of users, and see how far off that is."""
        seen = JudgedRatings(
            predicted=predictor.predict(history, held_out.users, held_out.items),
            actual=held_out.values.astype(np.float64),
            groups=groups[held_out.users],
            buckets=items.of_item[held_out.items],
        )
        for tally in (*self._whole.values(), *self._sliced.values()):
            tally.add(seen)

    def merge(self, other: "RatingTallies") -> None:
        """As of ``Tallies``."""
        _merge(self._whole, other._whole)
        _merge(self._sliced, other._sliced)

    def judgement(self, census: Census, items: ItemBuckets) -> Judgement:
        """As of ``Tallies``."""
        return _judgement(self._whole, self._sliced, census, items)


class ListTallies:
    """Every list metric: the same, and recall among the most popular items alone."""

    def __init__(self, *, n_groups: int, items: ItemBuckets, own: Sequence[str] = ()) -> None:
        """Nothing seen yet; ``own`` as of ``metrics_of``."""
        metrics = [metric for metric in metrics_of(own) if isinstance(metric, ListMetric)]
        self._whole = {
            name: metric.tally(k=k, n_groups=n_groups, counts=items.counts)
            for metric in metrics
            for name, k in zip(metric.names("test"), metric.at, strict=True)
        }
        self._sliced: dict[str, Tally[JudgedLists]] = {
            m.sliced_name("test"): m.sliced(items.n_buckets) for m in metrics if m.sliced is not None
        }
        self._head = SlicedRecalls(items.head_positions)

    def add(self, predictor: Predictor, held_out: HeldOut, *, groups: IndexArray, items: ItemBuckets) -> None:
        """Recommend to a block of users, and look at what is on their lists.

        In a catalogue of fewer than ``LONGEST_LIST`` items the rest of each list stays empty.
        """
        lists = predictor.recommend(held_out.history, k=LONGEST_LIST)
        seen = JudgedLists.of(lists, held_out.target, groups=groups, bucket_of_item=items.of_item)
        for tally in (*self._whole.values(), *self._sliced.values()):
            tally.add(seen)
        self._head.add(replace(seen, bucket_of_item=items.of_head))

    def merge(self, other: "ListTallies") -> None:
        """As of ``Tallies``."""
        _merge(self._whole, other._whole)
        _merge(self._sliced, other._sliced)
        self._head.merge(other._head)

    def judgement(self, census: Census, items: ItemBuckets) -> Judgement:
        """As of ``Tallies``."""
        found = _judgement(self._whole, self._sliced, census, items)
        return replace(found, of_head={"recall": listed(self._head.values()[: items.n_head_buckets])})


def tallies_of_span(
    predictor: Predictor,
    span: Span,
    group: ActivityGroup,
    *,
    part: str,
    n_groups: int,
    items: ItemBuckets,
    own: Sequence[str] = (),
) -> Tallies | None:
    """Judge the users of one span, block by block; what a job returns.

    Args:
        predictor: the model.
        span: private.
        group: of this span's users.
        part: ``validation`` or ``test``.
        n_groups: by activity.
        items: by popularity.
        own: metrics beside those that are installed, as of ``metrics_of``.

    Returns:
        None where nothing of them is held out.
    """
    ratings = RatingTallies(part, n_groups=n_groups, items=items, own=own)
    lists = ListTallies(n_groups=n_groups, items=items, own=own)
    seen: Tallies | None = None
    for split in span.blocks():
        history, held_out = held_out_of(split, part)
        judged = judged_users(split, part)
        if judged.size == 0:
            continue
        known = group.of(history.counts[judged])
        if isinstance(held_out, HeldOut):
            lists.add(predictor, held_out, groups=known, items=items)
            seen = lists
        else:
            groups = np.zeros(history.n_users, dtype=np.int32)
            groups[judged] = known
            ratings.add(predictor, history, held_out, groups=groups, items=items)
            seen = ratings
    return seen


def _judgement(
    whole: Mapping[str, Tally[Any]], sliced: Mapping[str, Tally[Any]], census: Census, items: ItemBuckets
) -> Judgement:
    return Judgement(
        metrics={name: tally.value() for name, tally in whole.items()},
        sliced={
            "bucket_edges": items.edges().tolist(),
            **{name: listed(tally.values()) for name, tally in sliced.items()},
        },
        by_activity={
            EDGES: listed(census.activity.edges()),
            **{name: listed(tally.values()) for name, tally in whole.items()},
        },
    )


def _merge(into: Mapping[str, Tally[Any]], other: Mapping[str, Tally[Any]]) -> None:
    for name, tally in into.items():
        tally.merge(other[name])
