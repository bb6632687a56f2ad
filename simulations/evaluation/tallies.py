"""All metrics of one judgement, of the users seen so far: added to block by block, and merged. Not private.

Before anybody is judged it has to be known of all how popular items are and how active people, which is private.
Results by users' activity: are people with few ratings served as well as those with many? Users are told apart by
how many ratings they are known by, in five groups of equally many, fewer where there are not five. Of users who are
known by equally many ratings those of lower rows are in the lower group.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.simulations.baselines.means import Predictor
from fedboard.simulations.data.splits import HeldOut
from fedboard.simulations.evaluation.metrics.metric import (
    LONGEST_LIST,
    N_BUCKETS,
    JudgedLists,
    JudgedRatings,
    ListMetric,
    Tally,
    bucket_edges,
    popularity_buckets,
)
from fedboard.simulations.evaluation.metrics.registry import metrics_of
from fedboard.simulations.evaluation.split_blocks import Span, held_out_of, judged_users

EDGES = "activity_edges"
"""In records: the numbers of ratings between which the groups lie."""


@dataclass(slots=True)
class ActivityGroup:
    """Puts the users of one span into groups; they must come in the order of their rows."""

    known: IntArray
    """Numbers of ratings that occur, int64, shape (n,), ascending. Private."""
    ranks: IntArray
    """Of each: how many users come before the next user of this number; int64, shape (n,)."""
    starts: IntArray
    """How many users come before each group but the first; int64, shape (n_groups - 1,)."""

    def of(self, known: IntArray) -> IndexArray:
        """Groups of the next users, int32, shape (n_users,).

        Args:
            known: how many ratings each is known by, shape (n_users,). Private.
        """
        place = np.searchsorted(self.known, known)
        order = np.argsort(place, kind="stable")
        numbers = np.bincount(place, minlength=self.known.size)
        before = np.empty(known.size, dtype=np.int64)
        before[order] = np.arange(known.size) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        rank = self.ranks[place] + before
        self.ranks = self.ranks + numbers
        return np.searchsorted(self.starts, rank, side="right").astype(np.int32)


def listed(values: Iterable[float]) -> list[float | None]:
    """As JSON has them: None for what is not a number."""
    return [None if np.isnan(value) else float(value) for value in values]


def _starts(n_users: int, n_groups: int) -> IntArray:
    """How many users come before each group: as ``np.array_split`` cuts."""
    smallest, larger = divmod(n_users, n_groups)
    groups = np.arange(n_groups, dtype=np.int64)
    return groups * smallest + np.minimum(groups, larger)


def _added(parts: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    known, place = np.unique(np.concatenate([known for known, _ in parts]), return_inverse=True)
    numbers = np.zeros(known.size, dtype=np.int64)
    np.add.at(numbers, place, np.concatenate([numbers for _, numbers in parts]))
    return known, numbers


@dataclass(slots=True, repr=False)
class Census:
    """Counts that are added to block by block and merged; not private: simulation only."""

    item_counts: IntArray
    """Training ratings per item, int64, shape (n_items,)."""
    _spans: dict[int, tuple[IntArray, IntArray]] = field(default_factory=dict)
    """By the first row of each span, of its judged users: numbers of ratings that occur, ascending, and of how many
    users."""

    @classmethod
    def of_span(cls, span: Span, part: str, *, count_items: bool = True) -> Self:
        """Count the users of one span; what a job returns.

        Args:
            span: private.
            part: ``validation`` or ``test``.
            count_items: False where the items are counted already; theirs are then 0 here.
        """
        census = cls(np.zeros(span.n_items, np.int64))
        for split in span.blocks():
            if count_items:
                census.item_counts += split.train.item_counts()
            census.add_users(span.start, held_out_of(split, part)[0].counts[judged_users(split, part)])
        return census

    def add_users(self, span: int, known: IntArray) -> None:
        """Take in users of a span, by its first row; ``known``: their numbers of ratings, shape (n_users,)."""
        self._take(span, *np.unique(known, return_counts=True))

    def merge(self, other: "Census") -> None:
        """Take in another's."""
        self.item_counts = self.item_counts + other.item_counts
        for span, (known, numbers) in other._spans.items():
            self._take(span, known, numbers)

    def _take(self, span: int, known: IntArray, numbers: IntArray) -> None:
        if span in self._spans:
            known, numbers = _added([self._spans[span], (known, numbers)])
        self._spans[span] = known, numbers

    @property
    def n_users(self) -> int:
        """All who are judged."""
        return sum(int(numbers.sum()) for _, numbers in self._spans.values())

    @property
    def n_groups(self) -> int:
        """Five, or one for each user."""
        return min(N_BUCKETS, self.n_users)

    def edges(self) -> FloatArray:
        """The fewest ratings of each group, then the most of all; float64, shape (n_groups + 1,)."""
        known, numbers = _added(list(self._spans.values()))
        firsts = np.append(_starts(self.n_users, self.n_groups), self.n_users - 1)
        return known[np.searchsorted(np.cumsum(numbers), firsts, side="right")].astype(np.float64)

    def groups(self) -> dict[int, ActivityGroup]:
        """For each span, by its first row, what puts its users into groups."""
        known, numbers = _added(list(self._spans.values()))
        ranks, starts = np.cumsum(numbers) - numbers, _starts(self.n_users, self.n_groups)[1:]
        found = {}
        for span in sorted(self._spans):
            found[span] = ActivityGroup(known=known, ranks=ranks, starts=starts)
            own, users = self._spans[span]
            ranks = ranks.copy()
            ranks[np.searchsorted(known, own)] += users
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Metrics of one model, with the same by popularity bucket (tail to head) and by users' activity."""

    metrics: Mapping[str, float]
    sliced: Mapping[str, Any]
    by_activity: Mapping[str, Any]
    """By users' activity, with the edges between the groups; empty where nothing was judged."""
    sample: Mapping[str, Any] = field(default_factory=dict)
    """Of how many users all this is, and how they were drawn; empty: of all of them."""

    def record(self) -> dict[str, Any]:
        """As a run keeps it."""
        told = {
            "metrics": dict(self.metrics),
            "sliced": dict(self.sliced),
            "by_activity": dict(self.by_activity),
        }
        return {**told, "sample": dict(self.sample)} if self.sample else told


NOTHING_JUDGED = Judgement(metrics={}, sliced={}, by_activity={})
"""Of a part into which nothing fell."""


class Tallies:
    """Every metric of one kind: overall, by popularity where it can be, by users' activity."""

    def __init__(
        self, part: str, *, of_lists: bool, n_groups: int, n_buckets: int, own: Sequence[str] = ()
    ) -> None:
        """Nothing seen yet; ``part`` is ``validation`` or ``test``, ``own`` as of ``metrics_of``."""
        self._whole: dict[str, Tally[Any]] = {}
        self._sliced: dict[str, Tally[Any]] = {}
        for metric in metrics_of(own):
            if isinstance(metric, ListMetric) is of_lists:
                self._whole |= metric.tallies(part, n_groups)
                if metric.sliced is not None:
                    self._sliced[metric.sliced_name(part)] = metric.sliced(n_buckets)

    def add(self, seen: JudgedRatings | JudgedLists) -> None:
        """Take in a block of users."""
        for tally in (*self._whole.values(), *self._sliced.values()):
            tally.add(seen)

    def merge(self, other: "Tallies") -> None:
        """Take in what another job has seen."""
        for own, others in ((self._whole, other._whole), (self._sliced, other._sliced)):
            for name, tally in own.items():
                tally.merge(others[name])

    def judgement(self, census: Census) -> Judgement:
        """What it comes to."""
        counts = census.item_counts
        return Judgement(
            metrics={name: tally.value() for name, tally in self._whole.items()},
            sliced={
                "bucket_edges": bucket_edges(counts, popularity_buckets(counts)).tolist(),
                **{name: listed(tally.values()) for name, tally in self._sliced.items()},
            },
            by_activity={
                EDGES: listed(census.edges()),
                **{name: listed(tally.values()) for name, tally in self._whole.items()},
            },
        )


def tallies_of_span(
    predictor: Predictor,
    span: Span,
    group: ActivityGroup,
    *,
    part: str,
    n_groups: int,
    counts: IntArray,
    own: Sequence[str] = (),
) -> Tallies | None:
    """Judge the users of one span, block by block; what a job returns.

    In a catalogue of fewer than ``LONGEST_LIST`` items the rest of each list stays empty.

    Args:
        predictor: the model.
        span: private.
        group: of this span's users.
        part: ``validation`` or ``test``.
        n_groups: by activity.
        counts: training ratings per item, int64, shape (n_items,). Private.
        own: metrics beside those that are installed, as of ``metrics_of``.

    Returns:
        None where nothing of them is held out.
    """
    tallies: Tallies | None = None
    bucket_of_item = popularity_buckets(counts)
    n_buckets = int(bucket_of_item.max()) + 1
    for split in span.blocks():
        history, held_out = held_out_of(split, part)
        judged = judged_users(split, part)
        if judged.size == 0:
            continue
        of_lists = isinstance(held_out, HeldOut)
        if tallies is None:
            tallies = Tallies(part, of_lists=of_lists, n_groups=n_groups, n_buckets=n_buckets, own=own)
        known = group.of(history.counts[judged])
        if isinstance(held_out, HeldOut):
            lists = predictor.recommend(held_out.history, k=LONGEST_LIST)
            seen: JudgedRatings | JudgedLists = JudgedLists.of(
                lists, held_out.target, groups=known, bucket_of_item=bucket_of_item, counts=counts
            )
        else:
            groups = np.zeros(history.n_users, dtype=np.int32)
            groups[judged] = known
            seen = JudgedRatings(
                predicted=predictor.predict(history, held_out.users, held_out.items),
                actual=held_out.values.astype(np.float64),
                groups=groups[held_out.users],
                buckets=bucket_of_item[held_out.items],
            )
        tallies.add(seen)
    return tallies
