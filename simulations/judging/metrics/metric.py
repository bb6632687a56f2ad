"""What a metric says of itself: its entry. The file that computes it ends with it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError
from fedboard.simulations.judging.metrics.tally import JudgedLists, JudgedRatings, Tally

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
        return (f"{part}_{self.name}",)

    def sliced_name(self, part: str) -> str:
        """The same, by popularity."""
        return f"{part}_{self.name}"


class AtK(Protocol):
    """Makes the empty state of a metric of the first k of each list."""

    def __call__(self, *, k: int, n_groups: int) -> Tally[JudgedLists]:
        """For as many groups of users as are told apart."""


class AtKOfCounts(Protocol):
    """The same of a metric that asks how often each item was rated."""

    def __call__(self, *, k: int, n_groups: int, counts: IntArray) -> Tally[JudgedLists]:
        """As ``AtK``, and training ratings per item, int64, shape (n_items,). Private."""


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
    of: AtK | None = None
    """Its empty state at one length; ``of_hits`` makes it of a number of each user."""
    of_counts: AtKOfCounts | None = None
    """The same, in place of ``of``, where it asks how often each item was rated in training."""
    sliced: Callable[[int], Tally[JudgedLists]] | None = None
    """The same for as many buckets of items, whose ``values`` are by popularity; None: it is not shown so."""
    sliced_label: str = ""
    """For people, where it is shown by popularity."""
    means: str = ""
    """As of a ``RatingMetric``."""

    def __post_init__(self) -> None:
        """Refuse lengths that no list has, and an entry without a function or with two."""
        if not self.at or not all(1 <= k <= LONGEST_LIST for k in self.at):
            raise InputError(
                f"metric {self.name}: `at` must hold lengths in 1..{LONGEST_LIST}, got {self.at}"
            )
        if (self.of is None) == (self.of_counts is None):
            raise InputError(f"metric {self.name}: give one function, either `of` or `of_counts`")

    def tally(self, *, k: int, n_groups: int, counts: IntArray) -> Tally[JudgedLists]:
        """Its empty state at one length, by whichever function it has.

        Args:
            k: how many of each list count.
            n_groups: of users, told apart.
            counts: training ratings per item; int64, shape (n_items,). Private.
        """
        if self.of_counts is not None:
            return self.of_counts(k=k, n_groups=n_groups, counts=counts)
        assert self.of is not None  # checked when the entry was made
        return self.of(k=k, n_groups=n_groups)

    def names(self, part: str) -> tuple[str, ...]:
        """In records; lists are of users that are held out, so that the part is not said."""
        return tuple(f"{self.name}@{k}" for k in self.at)

    def sliced_name(self, part: str) -> str:
        """The same, by popularity."""
        return self.name


Metric: TypeAlias = RatingMetric | ListMetric
"""Either kind."""
