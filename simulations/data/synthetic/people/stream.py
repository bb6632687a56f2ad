"""Made-up people as a stream: any number of them, each a function of the seed and of her number alone."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.synthetic.people import tables as words
from fedboard.simulations.data.synthetic.people.config import PeopleConfig, people_config
from fedboard.simulations.data.synthetic.people.tables import ML_1M, Shape, Tables, of_config

RATING_RANGE = (1.0, 5.0)
MOST_IN_MEMORY = 2_000_000_000
"""Ratings that are made at once: beyond it row numbers and memory end anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleStream:
    """Made-up people and their ratings, as a ``UserStream``. A handle: it holds no ratings, and is pickled small.

    Person number j (from 0) has the id j + 1. How much she rates, what, and how follows from the seed, the items
    and her number, in whole numbers throughout: so she is the same, bit for bit, whatever block she is read in,
    however many others there are, on whatever machine.

    Guarantee: nobody's ratings depend on anybody else's, so taking one person out moves nobody.
    """

    config: PeopleConfig
    shape: Shape = ML_1M
    rating_range: ClassVar[tuple[float, float]] = RATING_RANGE
    presence: ClassVar[bool] = False
    items_listed: ClassVar[bool] = True
    titles: ClassVar[None] = None
    exchangeable: ClassVar[bool] = True
    """The number of a row says nothing about the person: the first rows are as good a sample as any."""

    @property
    def name(self) -> str:
        """For reports: the source that means the same people."""
        return self.config.text

    @property
    def identity(self) -> str:
        """Hex digest of all that decides about every rating: the configuration and the shape. Public."""
        return hashlib.sha256(f"{self.config} {self.shape}".encode()).hexdigest()

    @property
    def n_users(self) -> int:
        """Number of people."""
        return self.config.users

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.config.items

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """The numbers of the items from 1 on, as text. Public."""
        return np.arange(1, self.n_items + 1).astype(np.str_)

    def counts(self, start: int, stop: int) -> IntArray:
        """How much each person ``start:stop`` rates, int64; without making the ratings.

        Raises:
            InputError: there are no such people.
        """
        self._require(start, stop)
        tables = self._tables
        from fedboard.simulations.data.synthetic.people import compiled  # takes numba half a second

        counts = np.empty(stop - start, dtype=np.int64)
        compiled.fill_counts(tables.base, tables.knots, tables.numbers, start, counts)
        return counts

    def read(self, start: int, stop: int) -> Cohort:
        """All ratings of the people ``start:stop``: items ascending in a row, stars from 1 to 5.

        Raises:
            InputError: there are no such people.
        """
        counts = self.counts(start, stop)
        indptr = np.zeros(counts.size + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        items = np.empty(int(indptr[-1]), dtype=np.int32)
        ratings = np.empty(items.size, dtype=np.float32)
        tables = self._tables
        from fedboard.simulations.data.synthetic.people import compiled

        compiled.fill_rows(
            tables.base,
            tables.keep,
            tables.other,
            tables.level,
            tables.taste.reshape(-1),
            tables.numbers,
            tables.taste_spreads,
            start,
            indptr,
            items,
            ratings,
        )
        return Cohort(
            indptr=indptr,
            items=items,
            ratings=ratings,
            n_items=self.n_items,
            first_row=start,
            user_keys=self.keys(start, stop),
        )

    def keys(self, start: int, stop: int) -> BitArray:
        """What people's coins are thrown by: a word of each of their streams, no two alike; uint64."""
        return words.word(words.streams_of(self._tables.base, start, stop), words.KEY)

    @property
    def _tables(self) -> Tables:
        return of_config(self.config, self.shape)

    def _require(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.n_users:
            raise InputError(f"{self.name}: rows {start}:{stop} were asked for, there are 0:{self.n_users}")


def open_people(source: str) -> PeopleStream:
    """The people that a data source names.

    Args:
        source: ``synthetic:KEY=NUMBER,...``.

    Raises:
        InputError: it names none, or not as it should.
    """
    return PeopleStream(config=people_config(source))


def ratings_of_people(stream: PeopleStream) -> Ratings:
    """All of them at once, as any data set in memory.

    Raises:
        InputError: more than fit one array.
    """
    expected = stream.n_users * stream.config.mean
    if expected > MOST_IN_MEMORY:
        raise InputError(
            f"{stream.name}: about {expected:.2g} ratings do not go into memory at once; stream them, "
            "or take fewer users"
        )
    cohort = stream.read(0, stream.n_users)
    return Ratings(
        users=cohort.user_of_entry(),
        items=cohort.items,
        values=cohort.ratings,
        user_ids=np.arange(1, stream.n_users + 1, dtype=np.int64),
        item_ids=stream.item_ids,
        titles=None,
        rating_range=RATING_RANGE,
        name=stream.name,
        items_listed=True,
        keys=cohort.keys,
    )
