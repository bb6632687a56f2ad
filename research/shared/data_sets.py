"""Ratings as they are, of one or several data sets: what is counted before anything is split or learnt."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.problem import load_data
from research.shared.experiment import Setting
from research.shared.ratings import data_of

POSITIVE_ABOVE, FEWEST_POSITIVES = 3.5, 5
"""What the list benchmarks count: ratings above 3.5, of users with at least 5 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Which user has which item. Private; here of public data sets, or of the user's own."""

    name: str
    users: IndexArray
    """int32, shape (n_pairs,): user numbers, ascending."""
    items: IndexArray
    """int32, shape (n_pairs,)."""

    @property
    def item_counts(self) -> IntArray:
        """n_i of the items that somebody has, int64, ascending."""
        counts = np.bincount(self.items)
        found: IntArray = np.sort(counts[counts > 0]).astype(np.int64)
        return found

    @property
    def user_counts(self) -> IntArray:
        """Items of each user who has any, int64."""
        counts = np.bincount(self.users)
        found: IntArray = counts[counts > 0].astype(np.int64)
        return found

    @property
    def described(self) -> str:
        """Which data this is, in words."""
        n, m = self.user_counts.size, self.item_counts.size
        return f"{self.name} ({n:,} users, {m:,} items, {self.users.size:,} pairs)"


def all_pairs(ratings: Ratings, name: str) -> Pairs:
    """Everything that is rated."""
    return Pairs(name=name, users=ratings.users, items=ratings.items)


def positive_pairs(ratings: Ratings, name: str) -> Pairs:
    """What the list benchmarks learn from and judge by: positive feedback of users with at least 5 of it."""
    positive = ratings.positive(POSITIVE_ABOVE)
    kept = (
        positive
        & (np.bincount(ratings.users[positive], minlength=ratings.n_users) >= FEWEST_POSITIVES)[ratings.users]
    )
    return Pairs(name=name, users=ratings.users[kept], items=ratings.items[kept])


def each_ratings(setting: Setting) -> list[tuple[str, Ratings]]:
    """All data sets of a setting with names of their own.

    Raises:
        InputError: one cannot be read.
    """
    found = [load_data(data_of(own)) for own in setting.each_data()]
    return list(zip(distinct([ratings.name for ratings in found]), found, strict=True))


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, numbered where one comes again."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    again = {name: 0 for name, times in seen.items() if times > 1}
    found = []
    for name in names:
        if name in again:
            again[name] += 1
            found.append(f"{name} ({again[name]})")
        else:
            found.append(name)
    return found
