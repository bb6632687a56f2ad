"""When ratings were given: whole seconds since 1970 in UTC, or whatever whole numbers a file counts in.

Splits by time: at public dates, or the last ratings of each user.

Both are questions to a rating and its user alone, as splits by coins are: a date is named by whoever runs, and
never read off the ratings; which of her ratings are a user's last, depends on hers. So whoever is added to a data
set or removed from it, everybody else's ratings stay in their parts. A cut at a share of all times would not do:
there one user more moves everybody's.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.ratings import KeyedRatings
from fedboard.simulations.data.splits.coins import SplitCoins

_LARGEST = 2.0**62
_LONGEST = 20
"""Characters of a whole number in a configuration."""


def times_of_numbers(column: ArrayLike) -> IntArray | None:
    """The times of an array of numbers or ``datetime64``; None where one is none."""
    found = np.asarray(column)
    if found.dtype.kind == "M":
        found = np.where(np.isnat(found), np.float64("nan"), found.astype("datetime64[s]").astype(np.int64))
    if found.dtype.kind not in "iuf":
        return None
    if found.dtype.kind == "f":
        if not np.all(np.abs(found) < _LARGEST):  # nor is one NaN
            return None
        found = np.floor(found)
    times: IntArray = found.astype(np.int64, copy=False)
    return times


def is_whole(cell: str, largest: int = 2**63 - 1) -> bool:
    """Whether a cell is a whole number in digits, of any sign; ``int`` reads no thousands of digits."""
    digits = cell.strip().removeprefix("-")
    short = len(digits.lstrip("0")) <= len(str(largest))
    return digits.isascii() and digits.isdigit() and short and int(digits.lstrip("0") or "0") <= largest


def public_time(given: int | float | str, key: str) -> int:
    """A time that somebody names in a configuration, in seconds since 1970; UTC where no zone is given.

    Args:
        given: a date or timestamp as ISO 8601 has it, or a whole number as the file has it. Public.
        key: of the configuration, for the message.

    Raises:
        InputError: it is neither; a share of all ratings is no time.
    """
    if isinstance(given, str) and len(given) <= _LONGEST and is_whole(given):
        given = int(given)
    if isinstance(given, int):
        return given
    found = _instant(given) if isinstance(given, str) else None
    if found is None:
        raise InputError(
            f"{key} must be a date such as 2005-12-01, or a whole number as the file counts its times, got "
            f"{given!r}. A share of all ratings is not taken: where it cuts depends on everybody's times, so that "
            "one user more would move the ratings of all others between the parts"
        )
    return int(found.timestamp())


def date_of(time: int) -> str:
    """The date of seconds since 1970, in UTC; the number itself where they are none."""
    try:
        return datetime.fromtimestamp(time, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return str(time)


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


Parts: TypeAlias = tuple[BoolArray, BoolArray, BoolArray]
"""Training, validation, test: each as many as rows; every row is in one of them."""


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

    def parts_of(self, rows: KeyedRatings) -> Parts:
        """Which rows are in which part.

        Guarantee: a row's part depends on its own time and the two dates alone.
        """
        assert rows.times is not None
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

    def parts_of(self, rows: KeyedRatings) -> Parts:
        """Which rows are in which part.

        Guarantee: a row's part depends on the seed and on the ids and times of its user's rows alone.
        """
        block, users = rows.block, rows.users
        words = self.coins.of_ratings(block.keys, rows.item_keys, users, block.items)
        assert rows.times is not None
        first_to_last = np.lexsort((words, rows.times, users))
        behind = np.empty(users.size, dtype=np.int64)  # how many of the same user are later
        behind[first_to_last] = np.repeat(np.cumsum(block.counts), block.counts) - 1 - np.arange(users.size)
        enough = block.counts[users] > 2 * self.count
        test, held_out = enough & (behind < self.count), enough & (behind < 2 * self.count)
        return ~held_out, held_out & ~test, test


TimeRule: TypeAlias = ByDate | ByLast


def is_training_part(train: Cohort, rule: TimeRule, rows: KeyedRatings) -> bool:
    """Whether a training part is what the rule makes of these rows, recomputed."""
    learnt = rows.block.where(rule.parts_of(rows)[0])
    same_users = train.user_keys is not None and np.array_equal(train.user_keys, learnt.keys)
    same_rows = np.array_equal(train.indptr, learnt.indptr)
    return same_users and same_rows and np.array_equal(train.items, learnt.items)
