"""What has to be known of all before anybody is judged: how popular items are, how active people. Private.

Results by users' activity: are people with few ratings served as well as those with many? Not private.

Users are told apart by how many ratings they are known by, in five groups of equally many, fewer where there are
not five. Of users who are known by equally many ratings those of lower rows are in the lower group.

Judging on some of the users alone, where there are very many. Who they are is drawn by coins of their keys.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Self

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.per_user.mixing import mix64
from fedboard.simulations.datasets import Triples
from fedboard.simulations.datasets.splits import HeldOut, RatingSplit
from fedboard.simulations.datasets.splits.coins import below
from fedboard.simulations.judging.metrics.metric import N_BUCKETS, bucket_edges, popularity_buckets
from fedboard.simulations.judging.metrics.ranking import head_buckets
from fedboard.simulations.judging.split_blocks import Span, Split, SplitBlocks, held_out_of, judged_users

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
    def of_span(cls, span: Span, part: str) -> Self:
        """Count the users of one span; what a job returns.

        Args:
            span: private.
            part: ``validation`` or ``test``.
        """
        census = cls(np.zeros(span.source.n_items, dtype=np.int64))
        for split in span.blocks():
            train = split.train
            census.item_counts += train.item_counts()
            census.activity.add(span.start, held_out_of(split, part)[0].counts[judged_users(split, part)])
        return census

    @classmethod
    def of_spans(cls, spans: Sequence[Span], part: str, *, item_counts: IntArray) -> Self:
        """The same here and now, where the items are counted already."""
        census = cls(item_counts)
        for span in spans:
            for split in span.blocks():
                known = held_out_of(split, part)[0].counts[judged_users(split, part)]
                census.activity.add(span.start, known)
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


_SECRET = np.uint64(int.from_bytes(blake2b(b"fedboard judged users", digest_size=8).digest(), "little"))
"""Other coins than those of any split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledBlocks:
    """Some of the users of another source: the others keep their rows, without ratings."""

    source: SplitBlocks
    share: float
    """Probability that a user is among them, in (0, 1]."""

    @property
    def n_users(self) -> int:
        """Rows of the source."""
        return self.source.n_users

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.source.n_items

    def blocks(self, start: int, stop: int) -> Iterator[Split]:
        """As of ``SplitBlocks``."""
        for split in self.source.blocks(start, stop):
            yield _of_users(split, drawn(split.train.keys, self.share))


def drawn(user_keys: BitArray, share: float) -> BoolArray:
    """Which users are in a sample, bool; whoever else there is.

    Args:
        user_keys: as from ``fedboard.simulations.datasets.id_keys``. Private.
        share: probability of each.
    """
    return below(mix64(mix64(user_keys ^ _SECRET)), share)


def _of_users(split: Split, chosen: BoolArray) -> Split:
    if isinstance(split, RatingSplit):
        return RatingSplit(
            train=_rows(split.train, chosen),
            train_and_validation=_rows(split.train_and_validation, chosen),
            validation=_triples(split.validation, chosen),
            test=_triples(split.test, chosen),
        )
    return replace(
        split,
        train=_rows(split.train, chosen),
        validation=_held_out(split.validation, chosen),
        test=_held_out(split.test, chosen),
    )


def _rows(cohort: Cohort, chosen: BoolArray) -> Cohort:
    return cohort.where(chosen[cohort.user_of_entry()])


def _triples(triples: Triples, chosen: BoolArray) -> Triples:
    own = chosen[triples.users]
    return Triples(users=triples.users[own], items=triples.items[own], values=triples.values[own])


def _held_out(held_out: HeldOut, chosen: BoolArray) -> HeldOut:
    own = chosen[held_out.users]
    return HeldOut(
        users=held_out.users[own],
        history=_without_other_rows(held_out.history, own),
        target=_without_other_rows(held_out.target, own),
    )


def _without_other_rows(cohort: Cohort, chosen: BoolArray) -> Cohort:
    entries = chosen[cohort.user_of_entry()]
    counts = cohort.counts[chosen]
    return Cohort(
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=cohort.items[entries],
        ratings=cohort.ratings[entries],
        n_items=cohort.n_items,
        user_keys=None if cohort.user_keys is None else cohort.user_keys[chosen],
    )
