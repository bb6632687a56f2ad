"""A rating data set as every reader returns it: numbered, sorted, checked."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, BoolArray, Float32Array, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.id_keys import Kind, id_keys

_IDS_AT_ONCE = 1 << 17
"""As objects all of them would take several times as much."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Triples:
    """Ratings as (user, item, value) triples, for what a model is judged on. Private."""

    users: IndexArray
    """int32, shape (n_ratings,): user numbers, ascending."""
    items: IndexArray
    """int32, shape (n_ratings,): item numbers, ascending within a user."""
    values: Float32Array
    """float32, shape (n_ratings,): ratings on the public range."""

    @property
    def n_ratings(self) -> int:
        """Number of triples."""
        return int(self.users.size)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ratings:
    """All ratings of one data set, sorted by user and item, no pair twice.

    The order depends on the ids alone, never on the order of the rows in the file. Users, items and values
    are private; item ids, titles and the rating range are public.
    """

    users: IndexArray
    """int32, shape (n_ratings,): user numbers in ``0..n_users - 1``, ascending. Private."""
    items: IndexArray
    """int32, shape (n_ratings,): item numbers in ``0..n_items - 1``, ascending within a user. Private."""
    values: Float32Array
    """float32, shape (n_ratings,): ratings, all within ``rating_range``. Private."""
    user_ids: NDArray[Any]
    """Shape (n_users,): the ids of the file (integers or text), ascending; if ``keys``: numbers. Private."""
    item_ids: NDArray[np.str_]
    """Shape (n_items,): the ids of the file as text. Public."""
    titles: tuple[str, ...] | None
    """One title per item, where the data set brings titles. Public."""
    rating_range: tuple[float, float]
    """Lowest and highest rating that the scale allows, both inclusive. Public, never read off the data."""
    name: str
    """Short name for reports, such as ``ml-1m``."""
    items_listed: bool = False
    """Whether the list of items stands apart from the ratings, so that it is the same whoever rated what."""
    presence: bool = False
    """Whether a row says only that somebody used an item, so that all rows are positive and none is a rating."""
    times: IntArray | None = None
    """int64, shape (n_ratings,): when each was given, see ``splits.times``; None: not read. Private."""
    test: Triples | None = None
    """The test part that the data set itself brings; not contained in the ratings above."""
    keys: BitArray | None = None
    """uint64, shape (n_users,): the key of each user, where her id is not at hand. Private."""

    @property
    def n_users(self) -> int:
        """Number of users, with those that have no rating here but do in ``test``."""
        return int(self.user_ids.size)

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return int(self.item_ids.size)

    @property
    def n_ratings(self) -> int:
        """Number of ratings, without those of ``test``."""
        return int(self.users.size)

    def positive(self, above: float) -> BoolArray:
        """Which rows are positive feedback: ratings above a threshold, and every use. Private."""
        return np.ones(self.n_ratings, np.bool_) if self.presence else self.values > np.float32(above)

    def user_keys(self) -> BitArray:
        """The key of each user id, uint64, shape (n_users,), see ``id_keys``. Private."""
        if self.keys is not None:
            return self.keys
        parts = range(0, self.n_users, _IDS_AT_ONCE)
        ids = chain.from_iterable(self.user_ids[start : start + _IDS_AT_ONCE].tolist() for start in parts)
        return id_keys(ids, Kind.USER)

    def cohort(self) -> Cohort:
        """All ratings as a cohort; items and ratings are shared, not copied."""
        indptr = np.zeros(self.n_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.users, minlength=self.n_users), out=indptr[1:])
        return Cohort(
            indptr=indptr,
            items=self.items,
            ratings=self.values,
            n_items=self.n_items,
            user_keys=self.user_keys(),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class KeyedRatings:
    """Ratings of some users, all of theirs, with what decides about the part of each. Private.

    A data set, or any block of its users: no user's part depends on the others.
    """

    block: Cohort
    """With the users' keys."""
    item_keys: BitArray
    """uint64, shape (n_items,), see ``id_keys``. Public."""
    times: IntArray | None = None
    """int64, shape (n_ratings,); None: not known, or they decide nothing."""

    def __post_init__(self) -> None:
        """See that there is a key for each item.

        Raises:
            InputError: there is not.
        """
        if self.item_keys.shape != (self.block.n_items,):
            raise InputError("a split needs one key for each item of the catalogue")

    @cached_property
    def users(self) -> IndexArray:
        """Whose each rating is: rows of the block, shape (n_ratings,)."""
        return self.block.user_of_entry()

    def some(self, chosen: BoolArray) -> Triples:
        """Some of the ratings.

        Args:
            chosen: bool, shape (n_ratings,).
        """
        block = self.block
        return Triples(users=self.users[chosen], items=block.items[chosen], values=block.ratings[chosen])

    def ones(self, chosen: BoolArray) -> Cohort:
        """Some of the pairs as positive feedback, with a row for every user."""
        some = self.block.where(chosen)
        return replace(some, ratings=np.ones(some.n_ratings, dtype=np.float32))


def check_range(rating_range: Any, label: str) -> tuple[float, float]:
    """The public rating range as two numbers.

    Raises:
        InputError: it is not two finite numbers, the lower first.
    """
    try:
        low, high = (float(bound) for bound in rating_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(
            f"{label}: the rating range must be two numbers, the lower first, got {rating_range!r}; "
            "give for example (1, 5)."
        )
    return low, high


def check_values(
    values: Float32Array, rating_range: tuple[float, float], locate: Callable[[int], str]
) -> None:
    """Check every rating against the public range.

    Raises:
        InputError: a rating is outside, or not a number.
    """
    low, high = np.float32(rating_range[0]), np.float32(rating_range[1])
    if not values.size or (values.min() >= low and values.max() <= high):  # NaN is neither
        return
    within = (values >= low) & (values <= high)
    row = int(np.argmin(within))
    allowed = f"{rating_range[0]:g} to {rating_range[1]:g}"
    if np.isnan(values[row]):
        raise InputError(
            f"{locate(row)}: the rating is NaN; ratings must be {allowed}, correct or remove the line."
        )
    raise InputError(
        f"{locate(row)}: rating {values[row]:g} is outside the public rating range {allowed}; "
        "correct the rating or declare the true range."
    )
