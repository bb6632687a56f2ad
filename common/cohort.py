"""A cohort: the ratings of the users that one client hosts, one row a user. A phone is a cohort of one.

Tasks on examples, features with a label, have cohorts too: an entry is then one example, its number within the row
stands for the item, its label for the rating, and ``features`` has the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, Float32Array, IndexArray, IntArray
from fedboard.common.errors import InputError

_ENTRIES_AT_ONCE = 1 << 18
"""Stay in cache, as wide numbers, while they are counted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cohort:
    """Ratings of ``n_users`` users in compressed rows. Private: it never leaves the device that hosts it.

    Everything a client computes is written for a cohort, and each user's part depends on her own row and
    on the published board alone.
    """

    indptr: IntArray
    """int64, shape (n_users + 1,): row j holds the ratings ``indptr[j]:indptr[j + 1]``."""
    items: IndexArray
    """int32, shape (n_ratings,): item numbers, ascending and unique within a row."""
    ratings: Float32Array
    """float32, shape (n_ratings,): the ratings, on the public rating range (or 1.0 for implicit feedback)."""
    n_items: int
    """Size of the public catalogue."""
    first_row: int = 0
    """Number of the first row in the population."""
    user_keys: BitArray | None = None
    """uint64, shape (n_users,): a number of each user's own that follows from her id alone, so that what is drawn
    by it does not depend on who else is there; None where rows have numbers that never shift. Private."""
    features: Float32Array | None = None
    """float32, shape (n_ratings, n_items), finite: the features of each entry, where entries are examples and the
    catalogue lists the features; None for ratings. Private."""

    def __post_init__(self) -> None:
        """Check shapes, not values: readers check values where they can name file and line.

        Raises:
            InputError: the three arrays do not fit together.
        """
        if self.indptr.ndim != 1 or self.indptr.size < 1 or self.items.shape != self.ratings.shape:
            raise InputError(
                "a cohort needs indptr of shape (n_users + 1,) and items and ratings of one shape"
            )
        if self.user_keys is not None and self.user_keys.shape != (self.n_users,):
            raise InputError("a cohort needs one user key for each row, or none at all")
        if self.features is not None and self.features.shape != (self.items.size, self.n_items):
            raise InputError("a cohort of examples needs the catalogue's features of each of them")

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return self.indptr.size - 1

    @property
    def n_ratings(self) -> int:
        """Number of ratings in all rows."""
        return int(self.indptr[-1] - self.indptr[0])

    @property
    def counts(self) -> IntArray:
        """Ratings per user, int64, shape (n_users,). Private."""
        return np.diff(self.indptr)

    @property
    def keys(self) -> BitArray:
        """What coins of a user are thrown by, uint64, shape (n_users,): her key, or her row's number. Private."""
        if self.user_keys is not None:
            return self.user_keys
        return np.arange(self.first_row, self.first_row + self.n_users, dtype=np.uint64)

    def user_of_entry(self) -> IndexArray:
        """Row number of each rating, int32, shape (n_ratings,)."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.counts)

    def item_counts(self) -> IntArray:
        """Ratings per item, int64, shape (n_items,). Private."""
        counts = np.zeros(self.n_items, dtype=np.int64)
        at_once = max(_ENTRIES_AT_ONCE, self.n_items)
        for first in range(0, self.items.size, at_once):
            counts += np.bincount(self.items[first : first + at_once], minlength=self.n_items)
        return counts

    def rows(self, start: int, stop: int) -> "Cohort":
        """Some of the users; ratings are views, not copies.

        Args:
            start: first row.
            stop: one past the last.
        """
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return Cohort(
            indptr=self.indptr[start : stop + 1] - first,
            items=self.items[first:last],
            ratings=self.ratings[first:last],
            n_items=self.n_items,
            first_row=self.first_row + start,
            user_keys=None if self.user_keys is None else self.user_keys[start:stop],
            features=None if self.features is None else self.features[first:last],
        )

    def where(self, keep: BoolArray) -> "Cohort":
        """The same users with some of their ratings.

        Args:
            keep: bool, shape (n_ratings,): which entries stay.
        """
        kept = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(keep, dtype=np.int64)])
        return Cohort(
            indptr=kept[self.indptr - self.indptr[0]],
            items=self.items[keep],
            ratings=self.ratings[keep],
            n_items=self.n_items,
            first_row=self.first_row,
            user_keys=self.user_keys,
            features=None if self.features is None else self.features[keep],
        )


def row_blocks(indptr: IntArray, n_entries: int) -> Iterator[tuple[int, int]]:
    """Consecutive rows with up to so many entries, or one row with more: (first, one past the last), all rows once.

    Args:
        indptr: int64, shape (n_rows + 1,), ascending.
        n_entries: >= 1.
    """
    start, n_rows = 0, indptr.size - 1
    while start < n_rows:
        enough = int(np.searchsorted(indptr, indptr[start] + n_entries, side="right")) - 1
        stop = min(max(enough, start + 1), n_rows)
        yield start, stop
        start = stop


def cohort_from_triples(
    users: IndexArray, items: IndexArray, ratings: Float32Array, *, n_users: int, n_items: int
) -> Cohort:
    """Build a cohort from triples in any order.

    Args:
        users: int32, shape (n_ratings,), row numbers in ``0..n_users - 1``.
        items: int32, shape (n_ratings,), item numbers in ``0..n_items - 1``; no (user, item) pair twice.
        ratings: float32, shape (n_ratings,).
        n_users: number of rows; users without ratings keep an empty row.
        n_items: size of the public catalogue.
    """
    order = np.argsort(users.astype(np.int64) * n_items + items, kind="stable")
    indptr = np.zeros(n_users + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=n_users), out=indptr[1:])
    return Cohort(
        indptr=indptr,
        items=np.ascontiguousarray(items[order], dtype=np.int32),
        ratings=np.ascontiguousarray(ratings[order], dtype=np.float32),
        n_items=n_items,
    )
