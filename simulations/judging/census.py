"""What has to be known of all before anybody is judged: how popular items are, how active people. Private."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.simulations.judging.activity import Activity, ActivityGroup
from fedboard.simulations.judging.metrics.buckets import N_BUCKETS, bucket_edges, popularity_buckets
from fedboard.simulations.judging.metrics.ranking import head_buckets
from fedboard.simulations.judging.split_blocks import Span, held_out_of, judged_users


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
