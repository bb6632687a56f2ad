"""What a metric says of itself: its entry. The file that computes it ends with it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from fedboard.common.arrays import FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError

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
    of: Callable[[FloatArray, FloatArray], float]
    """Its value, of the predicted ratings and the held-out ones, each of shape (n_ratings,)."""
    unit: str = ""
    """For people, such as ``stars``."""
    means: str = ""
    """What it is, for whoever sees it for the first time: the end of a sentence that begins with its label."""
    sliced: Callable[[FloatArray, FloatArray, IndexArray, IndexArray], FloatArray] | None = None
    """The same by popularity, shape (n_buckets,), of predicted and held-out ratings, their items, the
    items' buckets; None: it is not shown by popularity."""

    def names(self, part: str) -> tuple[str, ...]:
        """In records, of the ``validation`` or ``test`` part."""
        return (f"{part}_{self.name}",)

    def sliced_name(self, part: str) -> str:
        """The same, by popularity."""
        return f"{part}_{self.name}"


class AtK(Protocol):
    """A value of the first k of each list."""

    def __call__(self, recommended: IndexArray, targets: Cohort, *, k: int) -> float:
        """Of lists, shape (n_users, ``LONGEST_LIST``), best first, and held-out items, a row a user."""


class AtKOfCounts(Protocol):
    """The same of a metric that asks how often each item was rated."""

    def __call__(self, recommended: IndexArray, targets: Cohort, *, k: int, counts: IntArray) -> float:
        """Of lists and held-out items as in ``AtK``, and training ratings per item, shape (n_items,)."""


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
    """Its value at one length."""
    of_counts: AtKOfCounts | None = None
    """The same, in place of ``of``, where it asks how often each item was rated in training."""
    sliced: Callable[[IndexArray, Cohort, IndexArray], FloatArray] | None = None
    """The same by popularity, shape (n_buckets,), of lists, held-out items and the items' buckets."""
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

    def value(self, recommended: IndexArray, targets: Cohort, *, k: int, counts: IntArray) -> float:
        """Its value at one length, by whichever function it has.

        Args:
            recommended: item numbers, best first, -1 where a list ends early; int32, shape (n_users, length).
            targets: held-out items of the same users. Private.
            k: how many of each list count.
            counts: training ratings per item; int64, shape (n_items,). Private.
        """
        if self.of_counts is not None:
            return self.of_counts(recommended, targets, k=k, counts=counts)
        assert self.of is not None  # checked when the entry was made
        return self.of(recommended, targets, k=k)

    def names(self, part: str) -> tuple[str, ...]:
        """In records; lists are of users that are held out, so that the part is not said."""
        return tuple(f"{self.name}@{k}" for k in self.at)

    def sliced_name(self, part: str) -> str:
        """The same, by popularity."""
        return self.name


Metric: TypeAlias = RatingMetric | ListMetric
"""Either kind."""
