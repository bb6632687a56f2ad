"""Splits by time: at public dates, or the last ratings of each user.

Both are questions to a rating and its user alone, as splits by coins are: a date is named by whoever runs, and
never read off the ratings; which of her ratings are a user's last, depends on hers. So whoever is added to a data
set or removed from it, everybody else's ratings stay in their parts. A cut at a share of all times would not do:
there one user more moves everybody's.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.splits.coins import SplitCoins

Parts: TypeAlias = tuple[BoolArray, BoolArray, BoolArray]
"""Training, validation, test: each as many as rows; every row is in one of them."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TimedRows:
    """Ratings with their times, sorted by user and item. Private."""

    users: IndexArray
    """int32, shape (n_rows,): user numbers, ascending."""
    items: IndexArray
    """int32, shape (n_rows,)."""
    times: IntArray
    """int64, shape (n_rows,)."""
    user_keys: BitArray
    """uint64, shape (n_users,), see ``id_keys``."""
    item_keys: BitArray
    """uint64, shape (n_items,). Public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByDate:
    """What was given from one public date on is the test part, what was given from an earlier one on validation."""

    test_from: int
    """As the times count. Public."""
    validation_from: int
    """Likewise; not later. Where it is the same there is no validation part."""

    def __post_init__(self) -> None:
        """Check the order.

        Raises:
            InputError: validation would begin after the test.
        """
        if self.validation_from > self.test_from:
            raise InputError(
                "split.validation_from must not be later than split.test_from; give an earlier date."
            )

    def parts(self, rows: TimedRows) -> Parts:
        """Which rows are in which part.

        Guarantee: a row's part depends on its own time and the two dates alone.
        """
        test = rows.times >= self.test_from
        held_out = rows.times >= self.validation_from
        return ~held_out, held_out & ~test, test


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLast:
    """The last ratings of each user are the test part, as many before them validation.

    Of ratings at one time that one is later which has the larger coin. Who has no more than ``2 count`` ratings
    keeps all of them for training.
    """

    count: int
    """k, >= 1: of each part. Public."""
    coins: SplitCoins

    def __post_init__(self) -> None:
        """Check the number.

        Raises:
            InputError: it is below 1.
        """
        if self.count < 1:
            raise InputError(f"split.leave_last must be >= 1, got {self.count}; 1 tests on each user's last.")

    def parts(self, rows: TimedRows) -> Parts:
        """Which rows are in which part.

        Guarantee: a row's part depends on the seed and on the ids and times of its user's rows alone.
        """
        counts = np.bincount(rows.users, minlength=rows.user_keys.size)
        words = self.coins.of_ratings(rows.user_keys, rows.item_keys, rows.users, rows.items)
        first_to_last = np.lexsort((words, rows.times, rows.users))
        behind = np.empty(rows.users.size, dtype=np.int64)  # how many of hers are later
        behind[first_to_last] = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(rows.users.size)
        enough = counts[rows.users] > 2 * self.count
        test, held_out = enough & (behind < self.count), enough & (behind < 2 * self.count)
        return ~held_out, held_out & ~test, test


TimeRule: TypeAlias = ByDate | ByLast


def is_training_part(train: Cohort, rule: TimeRule, rows: TimedRows) -> bool:
    """Whether a training part is what the rule makes of these rows, recomputed."""
    learnt = rule.parts(rows)[0]
    same_users = train.user_keys is not None and np.array_equal(train.user_keys, rows.user_keys)
    return (
        same_users
        and np.array_equal(train.user_of_entry(), rows.users[learnt])
        and np.array_equal(train.items, rows.items[learnt])
    )
