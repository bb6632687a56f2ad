"""Made-up people, any number of them: a person is a function of the seed and of her number alone.

``--data synthetic:KEY=NUMBER,...`` says how many, of how many items, and which.
"""

import hashlib
import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedboard.common.algorithms.shared.ratings_config import checked_options
from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.synthetic import people_tables as words
from fedboard.simulations.data.synthetic.people_tables import ML_1M, Shape, Tables, tables_of

PREFIX = "synthetic:"
_MOST = {"users": 10**12, "items": 10**7, "seed": 2**63 - 1}
_LEAST = {"users": 1, "items": 20, "seed": 0}
_USUAL_MINIMUM = 0.12
"""Of the mean: that of MovieLens 1M, whose people rate 20 films at least and 166 in the mean."""
MOST_OF_CATALOGUE = 0.5
"""Nobody rates more of it."""


def is_people(source: str) -> bool:
    """Whether a data source names made-up people who are generated block by block."""
    return source.startswith(PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleConfig:
    """Which people. Public."""

    users: int = 20_000
    """How many; the first n of more people are those of n."""
    items: int = 3449
    """Size of the catalogue; by default that of MovieLens 1M as it is fitted."""
    mean: float = 165.5
    """Ratings of a person in the mean; what is cut off at half the catalogue is lost."""
    minimum: int | None = None
    """Nobody rates fewer; None for 0.12 of the mean, at least 1, as in MovieLens 1M."""
    seed: int = 0
    """Other seeds are other people and other items."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: a number is out of range.
        """
        for name, least in _LEAST.items():
            value, most = getattr(self, name), _MOST[name]
            if not least <= value <= most:
                raise InputError(
                    f"made-up people: {name} must be a whole number from {least} to {most:g}, got {value}"
                )
        if not 1 <= self.mean <= self.items / 4:
            raise InputError(
                f"made-up people: mean must be from 1 to a quarter of the items ({self.items / 4:g}), "
                f"got {self.mean:g}"
            )
        if self.minimum is not None and not 1 <= self.minimum <= self.mean:
            raise InputError(
                f"made-up people: minimum must be a whole number from 1 to the mean ({self.mean:g}), "
                f"got {self.minimum}"
            )

    @property
    def fewest(self) -> int:
        """What everybody rates at least."""
        if self.minimum is not None:
            return self.minimum
        return max(1, math.floor(_USUAL_MINIMUM * self.mean + 0.5))

    @property
    def most(self) -> int:
        """What nobody exceeds."""
        return max(self.fewest, int(MOST_OF_CATALOGUE * self.items))

    @property
    def text(self) -> str:
        """The data source that means these people."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        told = (f"{name}={_in_full(value)}" for name, value in given.items() if value is not None)
        return PREFIX + ",".join(told)


def _in_full(value: float) -> str:
    """All of a number: a mean that was rounded would be that of other people."""
    short = f"{value:g}"
    return short if not isinstance(value, int) and float(short) == value else repr(value)


def people_config(source: str) -> PeopleConfig:
    """What ``synthetic:KEY=NUMBER,...`` means.

    Raises:
        InputError: no such key, no number, or one out of range; one sentence.
    """
    given: dict[str, float] = {}
    for text in source.removeprefix(PREFIX).split(","):
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals):
            raise InputError(
                f"--data {source}: {text!r} must be KEY=NUMBER, such as {PREFIX}users=1e6,items=20000,mean=20"
            )
        if key in given:
            raise InputError(f"--data {source}: {key} is given twice; keep one of them")
        try:
            number = int(value) if value.lstrip("+-").isdecimal() else float(value)
            finite = math.isfinite(number)
        except (ValueError, OverflowError):
            number, finite = 0, False
        if not finite:
            raise InputError(f"--data {source}: {key} must be a number, got {value!r}")
        # 1e8 is a whole number too
        given[key] = int(number) if key != "mean" and number == math.floor(number) else number
    return checked_options(given, PeopleConfig, f"--data {source}")


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
        tables = self.tables
        from fedboard.simulations.data.synthetic import (
            people_compiled as compiled,  # takes numba half a second
        )

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
        tables = self.tables
        from fedboard.simulations.data.synthetic import people_compiled as compiled

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
        return words.word(words.streams_of(self.tables.base, start, stop), words.KEY)

    @property
    def tables(self) -> Tables:
        """What is public about them."""
        one = self.config
        return tables_of(one.seed, one.items, one.mean, one.fewest, one.most, self.shape)

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
