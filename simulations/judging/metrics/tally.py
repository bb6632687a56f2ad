"""What a metric keeps of those it has seen: added to block by block, merged, read at the end. Not private.

A tally is as large as the catalogue at most, however many users it has seen. In which blocks they came, and in
which order tallies were merged, changes its values in the last bits alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeVar

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.judging.metrics.membership import listed_in


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
    hits: BoolArray
    """Whether each place of a list has a held-out item; shape (n_users, length)."""

    @classmethod
    def of(
        cls, lists: IndexArray, targets: Cohort, *, groups: IndexArray, bucket_of_item: IndexArray
    ) -> Self:
        """Look the lists up in what was held out."""
        return cls(
            lists=lists,
            targets=targets,
            groups=groups,
            bucket_of_item=bucket_of_item,
            hits=listed_in(lists, targets.indptr, targets.items, n_items=targets.n_items),
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
    """Means of numbers by group, summed in float64."""

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

    def mean(self) -> float:
        """Of all; NaN where there are none."""
        number = int(self._numbers.sum())
        return float(self._sums.sum()) / number if number else float("nan")

    def means(self) -> FloatArray:
        """Of each group, float64, shape (n_groups,); NaN for a group without any."""
        found: FloatArray = np.full(self._sums.size, np.nan)
        np.divide(self._sums, self._numbers, out=found, where=self._numbers > 0)
        return found


OfHits = Callable[[BoolArray, IntArray], FloatArray | BoolArray]
"""A number of each user, shape (n_users,): of the hits among the first k of her list, shape (n_users, k), and of
how many of her items were held out, shape (n_users,), at least one."""


class MeanOverUsers:
    """The mean over users with held-out items of a number that follows from where their lists hit."""

    def __init__(self, of_user: OfHits, *, k: int, n_groups: int) -> None:
        """Nothing seen yet; ``of_user`` is a function of a module, so that a tally can be sent to its worker."""
        self._of_user, self._k, self._means = of_user, k, Means(n_groups)

    def add(self, seen: JudgedLists) -> None:
        """Take in a block of users."""
        asked = seen.targets.counts > 0
        hits, wanted = seen.hits[asked, : self._k], seen.targets.counts[asked]
        self._means.add_values(self._of_user(hits, wanted), seen.groups[asked])

    def merge(self, other: "MeanOverUsers") -> None:
        """Take in another's."""
        self._means.merge(other._means)

    def value(self) -> float:
        """The mean over all users."""
        return self._means.mean()

    def values(self) -> FloatArray:
        """The mean over the users of each group."""
        return self._means.means()


def of_hits(of_user: OfHits) -> Callable[..., MeanOverUsers]:
    """The entry's ``of`` of a metric that is a mean over users, from the number of one user."""
    return partial(MeanOverUsers, of_user)
