"""What a metric says of itself: its entry. The file that computes it ends with it.

What a metric keeps of those it has seen: added to block by block, merged, read at the end. Not private.

A tally is as large as the catalogue at most, however many users it has seen. In which blocks they came, and in
which order tallies were merged, changes its values in the last bits alone.

Popularity buckets: the catalogue cut into equal parts, from the least to the most rated items.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol, Self, TypeAlias, TypeVar

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError

_MARKED_BYTES = 1 << 23
"""Size of the table of marks: small enough to stay in cache while one block of rows is looked up."""


def listed_in(lists: IndexArray, indptr: IntArray, items: IndexArray, *, n_items: int) -> BoolArray:
    """Say for each entry of row j of ``lists`` whether it is among ``items[indptr[j]:indptr[j + 1]]``.

    Marks the sets of a block of rows in a table, looks the lists up, wipes the marks: linear, no sort.

    Args:
        lists: int32, shape (n_rows, k), item numbers; a negative number is an empty place and is in no set.
        indptr: int64, shape (n_rows + 1,).
        items: int32, shape (n_entries,), item numbers in 0..n_items - 1.
        n_items: size of the catalogue.

    Returns:
        bool, shape (n_rows, k).
    """
    n_rows = lists.shape[0]
    found = np.zeros(lists.shape, dtype=np.bool_)
    block = max(1, min(n_rows, _MARKED_BYTES // max(1, n_items)))
    marked = np.zeros(block * n_items, dtype=np.bool_)
    for start in range(0, n_rows, block):
        stop = min(start + block, n_rows)
        row_starts = np.arange(stop - start, dtype=np.int64) * n_items
        members = items[indptr[start] : indptr[stop]] + np.repeat(
            row_starts, np.diff(indptr[start : stop + 1])
        )
        marked[members] = True
        found[start:stop] = marked[lists[start:stop] + row_starts[:, None]] & (lists[start:stop] >= 0)
        marked[members] = False
    return found


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JudgedRatings:
    """Predicted ratings of some users, beside the held-out ones. Private."""

    predicted: FloatArray
    """float64, shape (n_ratings,), stars."""
    actual: FloatArray
    """float64, shape (n_ratings,), stars."""
    groups: IndexArray
    """int32, shape (n_ratings,): by activity, the group of the user of each."""
    buckets: IndexArray
    """int32, shape (n_ratings,): by popularity, the bucket of the item of each."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JudgedLists:
    """Lists of some users, beside what they should have held. Private."""

    lists: IndexArray
    """int32, shape (n_users, length), best first; a negative number is an empty place."""
    targets: Cohort
    """Held-out items, a row a user."""
    groups: IndexArray
    """int32, shape (n_users,): by activity."""
    bucket_of_item: IndexArray
    """int32, shape (n_items,): by popularity."""
    counts: IntArray
    """int64, shape (n_items,): how often each item was rated in training."""
    hits: BoolArray
    """Whether each place of a list has a held-out item; shape (n_users, length)."""

    @classmethod
    def of(
        cls,
        lists: IndexArray,
        targets: Cohort,
        *,
        groups: IndexArray,
        bucket_of_item: IndexArray,
        counts: IntArray,
    ) -> Self:
        """Look the lists up in what was held out."""
        hits = listed_in(lists, targets.indptr, targets.items, n_items=targets.n_items)
        return cls(
            lists=lists,
            targets=targets,
            groups=groups,
            bucket_of_item=bucket_of_item,
            counts=counts,
            hits=hits,
        )


Seen = TypeVar("Seen", contravariant=True)


class Tally(Protocol[Seen]):
    """The state of one metric."""

    def add(self, seen: Seen) -> None:
        """Take in a block of users who were not there before."""

    def merge(self, other: Self) -> None:
        """Take in what another tally of the same metric has seen; it is not used after that."""

    def value(self) -> float:
        """Of all that was seen; NaN where that is nothing."""

    def values(self) -> FloatArray:
        """Of each group apart, shape (n_groups,); NaN for a group without any."""


class Means:
    """Means of numbers by group, summed in float64: the state of most metrics, whose ``add`` says which numbers."""

    def __init__(self, n_groups: int) -> None:
        """Nothing seen yet."""
        self._sums: FloatArray = np.zeros(n_groups)
        self._numbers: IntArray = np.zeros(n_groups, dtype=np.int64)

    def add_values(self, values: FloatArray | BoolArray, groups: IndexArray) -> None:
        """Take in numbers, shape (n,), each of its group; int32, shape (n,)."""
        size = self._sums.size
        self._sums += np.bincount(groups, weights=values, minlength=size)
        self._numbers += np.bincount(groups, minlength=size)

    def merge(self, other: "Means") -> None:
        """Take in another's."""
        self._sums += other._sums
        self._numbers += other._numbers

    def value(self) -> float:
        """Mean of all; NaN where there are none."""
        number = int(self._numbers.sum())
        return float(self._sums.sum()) / number if number else float("nan")

    def values(self) -> FloatArray:
        """Mean of each group, float64, shape (n_groups,); NaN for a group without any."""
        found: FloatArray = np.full(self._sums.size, np.nan)
        np.divide(self._sums, self._numbers, out=found, where=self._numbers > 0)
        return found


OfHits = Callable[[BoolArray, IntArray], FloatArray | BoolArray]
"""A number of each user, shape (n_users,): of the hits among the first k of their list, shape (n_users, k), and of
how many of their items were held out, shape (n_users,), at least one."""


class MeanOverUsers(Means):
    """The mean over users with held-out items of a number that follows from where their lists hit."""

    def __init__(self, of_user: OfHits, *, k: int, n_groups: int) -> None:
        """Nothing seen yet; ``of_user`` is a function of a module, so that a tally can be sent to its worker."""
        super().__init__(n_groups)
        self._of_user, self._k = of_user, k

    def add(self, seen: JudgedLists) -> None:
        """Take in a block of users."""
        asked = seen.targets.counts > 0
        hits, wanted = seen.hits[asked, : self._k], seen.targets.counts[asked]
        self.add_values(self._of_user(hits, wanted), seen.groups[asked])


def of_hits(of_user: OfHits) -> Callable[..., MeanOverUsers]:
    """The entry's ``of`` of a metric that is a mean over users, from the number of one user."""
    return partial(MeanOverUsers, of_user)


LONGEST_LIST = 100
"""Length of the lists that are judged; the tail bucket's recall looks at all of it."""


class Better(StrEnum):
    """Which of two values is the better one."""

    LOWER = "lower"
    """As of an error."""
    HIGHER = "higher"
    """As of a share that was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingMetric:
    """Of predicted ratings: judged where feedback is explicit."""

    name: str
    """In records, after the part that is held out: ``rmse`` of ``test_rmse``."""
    label: str
    """For people, as it stands within a line."""
    better: Better
    """Which of two values is chosen."""
    of: Callable[[int], Tally[JudgedRatings]]
    """Its empty state, for as many groups of users as are told apart."""
    unit: str = ""
    """For people, such as ``stars``."""
    means: str = ""
    """What it is, for whoever sees it for the first time: the end of a sentence that begins with its label."""
    sliced: Callable[[int], Tally[JudgedRatings]] | None = None
    """The same for as many buckets of items, whose ``values`` are by popularity; None: it is not shown so."""

    def names(self, part: str) -> tuple[str, ...]:
        """In records, of the ``validation`` or ``test`` part."""
        return (self.sliced_name(part),)

    def sliced_name(self, part: str) -> str:
        """The same, by popularity."""
        return f"{part}_{self.name}"

    def tallies(self, part: str, n_groups: int) -> dict[str, Tally[JudgedRatings]]:
        """Its empty states, by its names in records."""
        return dict.fromkeys(self.names(part), self.of(n_groups))


class AtK(Protocol):
    """Makes the empty state of a metric of the first k of each list."""

    def __call__(self, *, k: int, n_groups: int) -> Tally[JudgedLists]:
        """For as many groups of users as are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMetric:
    """Of recommended lists: judged where feedback is implicit."""

    name: str
    """In records, before the length: ``recall`` of ``recall@20``."""
    label: str
    """For people, as it stands within a line."""
    better: Better
    """Which of two values is chosen."""
    at: tuple[int, ...]
    """Lengths of the lists that are judged, each up to ``LONGEST_LIST``; the first is told first."""
    of: AtK
    """Its empty state at one length; ``of_hits`` makes it of a number of each user."""
    sliced: Callable[[int], Tally[JudgedLists]] | None = None
    """The same for as many buckets of items, whose ``values`` are by popularity; None: it is not shown so."""
    sliced_label: str = ""
    """For people, where it is shown by popularity."""
    means: str = ""
    """As of a ``RatingMetric``."""

    def __post_init__(self) -> None:
        """Refuse lengths that no list has."""
        if not self.at or not all(1 <= k <= LONGEST_LIST for k in self.at):
            raise InputError(
                f"metric {self.name}: `at` must hold lengths in 1..{LONGEST_LIST}, got {self.at}"
            )

    def names(self, part: str) -> tuple[str, ...]:
        """In records; lists are of users that are held out, so that the part is not said."""
        return tuple(f"{self.name}@{k}" for k in self.at)

    def sliced_name(self, part: str) -> str:
        """The same, by popularity."""
        return self.name

    def tallies(self, part: str, n_groups: int) -> dict[str, Tally[JudgedLists]]:
        """Its empty states, by its names in records."""
        return {f"{self.name}@{k}": self.of(k=k, n_groups=n_groups) for k in self.at}


Metric: TypeAlias = RatingMetric | ListMetric
"""Either kind."""


N_BUCKETS = 5
"""Number of buckets in Krichene et al. (2023), figures 4, 8 and 10."""


def popularity_buckets(counts: IntArray | FloatArray, *, n_buckets: int | None = None) -> IndexArray:
    """Sort the items by training count and cut the order into buckets of equal item number.

    Bucket 0 is the tail, bucket ``n_buckets - 1`` the head. Items of equal count keep the order of their item
    numbers; where ``n_items`` does not divide, the buckets nearest the tail hold one item more.

    Args:
        counts: shape (n_items,), training ratings per item. Exact counts are private: simulation only.
        n_buckets: number of buckets, in 1..n_items; None: five, or one for each item of a tiny catalogue.

    Returns:
        Bucket of each item, int32, shape (n_items,), in 0..n_buckets - 1.

    Raises:
        InputError: there are fewer items than buckets.

    Reference: Krichene et al. (2023), section 5, "Impact on head and tail tasks".
    """
    if n_buckets is None:
        n_buckets = min(N_BUCKETS, counts.size)
    if not 1 <= n_buckets <= counts.size:
        raise InputError(f"n_buckets must be in 1..n_items = 1..{counts.size}, got {n_buckets}")
    bucket_of_item = np.empty(counts.size, dtype=np.int32)
    for bucket, items in enumerate(np.array_split(np.argsort(counts, kind="stable"), n_buckets)):
        bucket_of_item[items] = bucket
    return bucket_of_item


def bucket_edges(counts: IntArray | FloatArray, bucket_of_item: IndexArray) -> FloatArray:
    """The counts between which the buckets lie: the smallest count of each bucket, then the largest of all.

    Args:
        counts: shape (n_items,), the counts that ``popularity_buckets`` was given.
        bucket_of_item: int32, shape (n_items,), from ``popularity_buckets``; no bucket is empty.

    Returns:
        Counts, float64, shape (n_buckets + 1,), ascending.
    """
    smallest = np.full(int(bucket_of_item.max()) + 1, np.inf)
    np.minimum.at(smallest, bucket_of_item, counts)
    return np.append(smallest, float(counts.max()))
