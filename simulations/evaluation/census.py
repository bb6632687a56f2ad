"""What has to be known of all before anybody is judged: how popular items are, how active people. Private.

Results by users' activity: are people with few ratings served as well as those with many? Not private.

Users are told apart by how many ratings they are known by, in five groups of equally many, fewer where there are
not five. Of users who are known by equally many ratings those of lower rows are in the lower group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.simulations.evaluation.metrics.metric import N_BUCKETS, bucket_edges, popularity_buckets
from fedboard.simulations.evaluation.metrics.ranking import head_buckets
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


@dataclass(slots=True)
class Activity:
    """How many users are known by how many ratings, span by span. Private."""

    _spans: dict[int, tuple[IntArray, IntArray]] = field(default_factory=dict)
    """By the first row of the span: numbers of ratings that occur in it, ascending, and of how many users."""

    def add(self, span: int, known: IntArray) -> None:
        """Take in users of a span, by its first row; ``known`` int64, shape (n_users,)."""
        self._take(span, *np.unique(known, return_counts=True))

    def merge(self, other: "Activity") -> None:
        """Take in another's."""
        for span, (known, numbers) in other._spans.items():
            self._take(span, known, numbers)

    def _take(self, span: int, known: IntArray, numbers: IntArray) -> None:
        if span in self._spans:
            known, numbers = _added([self._spans[span], (known, numbers)])
        self._spans[span] = known, numbers

    @property
    def n_users(self) -> int:
        """All that were seen."""
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
        """For each span what puts its users into groups."""
        known, numbers = _added(list(self._spans.values()))
        ranks, starts = np.cumsum(numbers) - numbers, _starts(self.n_users, self.n_groups)[1:]
        found = {}
        for span in sorted(self._spans):
            found[span] = ActivityGroup(known=known, ranks=ranks, starts=starts)
            own, users = self._spans[span]
            ranks = ranks.copy()
            ranks[np.searchsorted(known, own)] += users
        return found


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
    activity: Activity = field(default_factory=Activity)
    """Of the users who are judged."""

    @classmethod
    def of_span(cls, span: Span, part: str, item_counts: IntArray | None = None) -> Self:
        """Count the users of one span; what a job returns.

        Args:
            span: private.
            part: ``validation`` or ``test``.
            item_counts: where the items are counted already, which then is not done again. Private.
        """
        census = cls(np.zeros(span.source.n_items, np.int64) if item_counts is None else item_counts)
        for split in span.blocks():
            if item_counts is None:
                census.item_counts += split.train.item_counts()
            census.activity.add(span.start, held_out_of(split, part)[0].counts[judged_users(split, part)])
        return census

    def merge(self, other: "Census") -> None:
        """Take in another's."""
        self.item_counts = self.item_counts + other.item_counts
        self.activity.merge(other.activity)

    def groups(self) -> Mapping[int, ActivityGroup]:
        """What puts the users of each span into groups, by the span's first row."""
        return self.activity.groups()


@dataclass(frozen=True, slots=True, repr=False)
class ItemBuckets:
    """The catalogue by popularity. Not private: simulation only."""

    counts: IntArray
    """Training ratings per item, int64, shape (n_items,)."""
    of_item: IndexArray
    """Five buckets, or one per item of a tiny catalogue; int32, shape (n_items,)."""
    n_buckets: int
    of_head: IndexArray
    """The same of the most popular tenth, all others in one more; see ``head_buckets``."""
    head_positions: tuple[int, ...]
    n_head_buckets: int

    @classmethod
    def of(cls, counts: IntArray) -> Self:
        """Sort the items by their counts."""
        n_buckets = min(N_BUCKETS, counts.size)
        of_head, positions, n_head_buckets = head_buckets(counts)
        return cls(
            counts=counts,
            of_item=popularity_buckets(counts, n_buckets=n_buckets),
            n_buckets=n_buckets,
            of_head=of_head,
            head_positions=positions,
            n_head_buckets=n_head_buckets,
        )

    def edges(self) -> FloatArray:
        """The counts between which the five lie."""
        return bucket_edges(self.counts, self.of_item)
