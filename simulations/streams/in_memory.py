"""Ratings that fit into memory, as a stream: for small data, and to see that streaming changes nothing."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.ratings import Ratings


@dataclass(frozen=True, slots=True, repr=False)
class InMemoryStream:
    """All ratings of a data set; rows in the order of ``Ratings``. It pickles with all of them."""

    ratings: Ratings
    """Private."""
    identity: str = field(init=False)
    _cohort: Cohort = field(init=False)

    def __post_init__(self) -> None:
        """Number the rows once.

        Raises:
            InputError: the data set brings a test part of its own, which a stream has no place for.
        """
        if self.ratings.test is not None:
            raise InputError(
                f"{self.ratings.name} brings a test part of its own, and a stream has none: run it without "
                "run.streamed (--streamed)"
            )
        cohort = self.ratings.cohort()
        object.__setattr__(self, "_cohort", cohort)
        object.__setattr__(self, "identity", _digest(self.ratings, cohort))

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.ratings.name

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return self.ratings.n_users

    @property
    def rating_range(self) -> tuple[float, float]:
        """Of the data set."""
        return self.ratings.rating_range

    @property
    def presence(self) -> bool:
        """Of the data set."""
        return self.ratings.presence

    @property
    def items_listed(self) -> bool:
        """Of the data set."""
        return self.ratings.items_listed

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """Of the data set."""
        return self.ratings.item_ids

    @property
    def titles(self) -> tuple[str, ...] | None:
        """Of the data set."""
        return self.ratings.titles

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.ratings.n_items

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of these users."""
        return np.diff(self._cohort.indptr[start : stop + 1])

    def read(self, start: int, stop: int) -> Cohort:
        """These users' rows, without copying."""
        return self._cohort.rows(start, stop)


def _digest(ratings: Ratings, cohort: Cohort) -> str:
    """Of every rating, key and item: whoever knows it could test a guess at all of them, and at nothing less."""
    found = hashlib.sha256(f"{ratings.name}\n{ratings.rating_range}\n{ratings.presence}\n".encode())
    for array in (cohort.indptr, cohort.items, cohort.ratings, cohort.keys):
        found.update(np.ascontiguousarray(array).data)
    found.update("\n".join(ratings.item_ids.tolist()).encode("utf-8", "surrogatepass"))
    return found.hexdigest()
