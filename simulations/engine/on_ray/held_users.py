"""Ratings that one process has in memory, as blocks in a cluster's object store: a span is read from its block."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.cohort import Cohort


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldUsers:
    """The training rows of some users, as a stream of which nothing else can be read. Private."""

    rows: Cohort
    """With their keys; ``first_row`` is the first one's number."""
    n_users: int
    """Of the whole population."""
    identity: str
    rating_range: tuple[float, float]
    name: str = "held ratings"
    presence: bool = False
    items_listed: bool = False
    titles: tuple[str, ...] | None = None

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """Numbers: nothing is held out of what is held, so that ids decide nothing."""
        return np.array([str(item) for item in range(self.n_items)])

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.rows.n_items

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of these users."""
        return self.read(start, stop).counts

    def read(self, start: int, stop: int) -> Cohort:
        """These users' rows, without copying."""
        first = self.rows.first_row
        return self.rows.rows(start - first, stop - first)


NOBODY: Final = HeldUsers(
    rows=Cohort(
        indptr=np.zeros(1, dtype=np.int64),
        items=np.empty(0, dtype=np.int32),
        ratings=np.empty(0, dtype=np.float32),
        n_items=0,
    ),
    n_users=0,
    identity="nobody",
    rating_range=(-math.inf, math.inf),
)
"""Stands for a stream that is sent by itself."""


@dataclass(frozen=True, slots=True)
class Everything:
    """The splitting of rows of which all is learnt from."""

    def train(self, block: Cohort, item_keys: BitArray) -> Cohort:
        """The block."""
        return block


def held_by(rows: Cohort) -> HeldUsers:
    """All users of a problem, as a stream that each span gives its own rows."""
    return HeldUsers(
        rows=rows.rows(0, 0), n_users=rows.n_users, identity="held", rating_range=(-math.inf, math.inf)
    )


def arrays_of(rows: Cohort) -> dict[str, NDArray[np.generic]]:
    """What an object store holds of a block."""
    return {
        "indptr": rows.indptr - rows.indptr[0],
        "items": np.ascontiguousarray(rows.items),
        "ratings": np.ascontiguousarray(rows.ratings),
        "user_keys": np.ascontiguousarray(rows.keys),
    }


def rows_of(arrays: Mapping[str, NDArray[np.generic]], *, first_row: int, n_items: int) -> Cohort:
    """The block again, in arrays of the worker's own."""
    own = {name: np.array(values) for name, values in arrays.items()}
    return Cohort(**own, n_items=n_items, first_row=first_row)
