"""The way in: users are written to a file of ratings, and the rows that a run asks are made of it as a run does."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import msgspec
import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import FedboardError, InputError
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import Ratings
from fedboard.simulations.problem import Problem, load_problem

Reader: TypeAlias = Callable[[SimulationConfig], Problem]
"""What makes training rows of the file that a configuration names."""
_APART = 1_000
"""Between the ids of honest users, so that others can come before, after and between them."""
_TRIES = 50
_POSITIVES = 8
"""With implicit feedback, users of few of them are not asked."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Crowd:
    """Some users with all their ratings, one entry a rating, in any order. Private."""

    users: IntArray
    """int64, shape (n_ratings,): ids as they stand in the file."""
    items: IndexArray
    """int32, shape (n_ratings,): places in the catalogue; no item twice for one user."""
    values: Float32Array
    """float32, shape (n_ratings,): on the rating range."""

    @property
    def ids(self) -> IntArray:
        """Who is there, int64, ascending: in this order a run numbers them."""
        return np.unique(self.users)

    def of(self, ids: IntArray) -> "Crowd":
        """Some of them."""
        keep = np.isin(self.users, ids)
        return Crowd(users=self.users[keep], items=self.items[keep], values=self.values[keep])

    def joined(self, other: "Crowd") -> "Crowd":
        """All of both."""
        return Crowd(
            users=np.concatenate([self.users, other.users]),
            items=np.concatenate([self.items, other.items]),
            values=np.concatenate([self.values, other.values]),
        )

    def times(self, number: int) -> "Crowd":
        """So many times as many users with the same ratings; their ids come after these."""
        span = _APART + int(self.users.max()) // _APART * _APART
        users = np.concatenate([self.users + copy * span for copy in range(number)])
        return Crowd(users=users, items=np.tile(self.items, number), values=np.tile(self.values, number))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entered:
    """The training rows of a crowd. Private."""

    ids: IntArray
    """int64, shape (n_users,): whose row each is."""
    cohort: Cohort

    def rows_of(self, ids: IntArray) -> IntArray:
        """Row numbers of some that are there."""
        return np.searchsorted(self.ids, ids)

    def without(self, ids: IntArray) -> Cohort:
        """The same rows, empty for these users: others are asked in their place."""
        emptied = np.isin(self.ids, ids)
        return self.cohort.where(~np.repeat(emptied, self.cohort.counts))

    def in_order(self, ids: IntArray) -> Cohort:
        """The rows of these users, in this order; each must be there."""
        rows = self.rows_of(ids)
        counts = self.cohort.counts[rows]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        entries = np.repeat(self.cohort.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        changes = (
            {"user_keys": keys[rows]} if (keys := getattr(self.cohort, "user_keys", None)) is not None else {}
        )
        return replace(
            self.cohort,
            indptr=indptr,
            items=self.cohort.items[entries],
            ratings=self.cohort.ratings[entries],
            **changes,
        )


class Entrance:
    """A folder in which files of ratings are written, and read again by the public way of a run.

    The list of items is public, one file for all crowds; everything else goes through ``load_problem``: reading,
    numbering, the split into parts.
    """

    def __init__(self, config: SimulationConfig, ratings: Ratings, *, read: Reader = load_problem) -> None:
        """Begin with the users of a data set.

        Args:
            config: of the run; its data are replaced by the files that are written here.
            ratings: whose users are the honest ones; a test part that the set brings is left out, so that the run
                makes its own. Private.
            read: makes the training rows of a file.
        """
        if config.split.by_time:
            raise InputError(
                "the audit makes up users, who have no times: leave out split.test_from and split.leave_last"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="fedboard-audit-")
        self._items = [str(item) for item in ratings.item_ids]
        self._config = config
        if ratings.presence:  # its file has no such mark: there, what is above 0 is a use
            split = msgspec.structs.replace(config.split, positive_above=0.0)
            self._config = msgspec.structs.replace(config, split=split)
        self.rating_range = ratings.rating_range
        self._titles = Path(self._folder.name) / "titles.csv"
        _write(self._titles, item=self._items, title=list(ratings.titles or self._items))
        self.honest = Crowd(
            users=_APART * (1 + ratings.users.astype(np.int64)), items=ratings.items, values=ratings.values
        )
        self.read = read
        self._honest_rows: Entered | None = None

    def __enter__(self) -> "Entrance":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self._items)

    def problem(self, crowd: Crowd) -> Problem:
        """What a run makes of a file with these users."""
        path = Path(self._folder.name) / "ratings.csv"
        names = np.array(self._items, dtype=object)
        _write(path, user=crowd.users, item=names[crowd.items], rating=crowd.values)
        data = msgspec.structs.replace(
            self._config.data, source=str(path), format=None, columns=None, rating_range=self.rating_range,
            titles=str(self._titles), catalogue="listed",
        )  # fmt: skip
        return self.read(msgspec.structs.replace(self._config, data=data))

    def rows(self, crowd: Crowd) -> Entered:
        """The training rows of these users, from the file on.

        Raises:
            FedboardError: the run does not have a row for each user of the file.
        """
        cohort, ids = self.problem(crowd).train, crowd.ids
        if cohort.n_users != ids.size:
            raise FedboardError(f"the file has {ids.size} users and the run made {cohort.n_users} rows of it")
        return Entered(ids=ids, cohort=cohort)

    def honest_rows(self) -> Entered:
        """The honest users by themselves; read once."""
        if self._honest_rows is None:
            self._honest_rows = self.rows(self.honest)
        return self._honest_rows

    def strangers(self, number: int, *, items_each: int, rng: np.random.Generator) -> Crowd:
        """Users that nobody else is like: so many of whom something is asked.

        Ids lie between those of the honest ones, items are random, ratings are extreme, so that with implicit
        feedback all of them count. The split's coins are public: who would be held out is not taken.

        Args:
            number: how many.
            items_each: ratings of each.
            rng: draws them.
        """
        found = np.empty(0, dtype=np.int64)
        crowd = Crowd(users=found, items=np.empty(0, np.int32), values=np.empty(0, np.float32))
        taken = self.honest.ids
        for _ in range(_TRIES):
            if found.size == number:
                return crowd
            more = self._drawn(2 * (number - found.size) + 8, items_each, rng)
            more = more.of(np.setdiff1d(more.ids, np.union1d(taken, crowd.ids)))
            entered = self.rows(more)
            asked = entered.ids[entered.cohort.counts > 0]
            crowd = crowd.joined(more.of(rng.permutation(asked)[: number - found.size]))
            found = crowd.ids
        raise FedboardError(
            f"the run asks nothing of {number - found.size} of {number} users made up for the audit"
        )

    def _drawn(self, number: int, items_each: int, rng: np.random.Generator) -> Crowd:
        places = rng.integers(0, _APART + int(self.honest.ids[-1]) // _APART * _APART, 2 * number)
        ids = rng.permutation(np.unique(places[places % _APART != 0]))[:number]
        explicit = self._config.split_kind == "ratings"
        size = min(items_each if explicit else max(items_each, _POSITIVES), self.n_items)
        items = random_supports(ids.size, size, self.n_items, rng)
        low, high = self.rating_range
        values = rng.choice([low, high], items.shape) if explicit else np.full(items.shape, high)
        return Crowd(
            users=np.repeat(ids, items.shape[1]),
            items=items.ravel(),
            values=values.astype(np.float32).ravel(),
        )


def random_supports(n_rows: int, size: int, n_items: int, rng: np.random.Generator) -> IndexArray:
    """Distinct items for each row, ascending, int32, shape (n_rows, size), each set equally likely."""
    if size == 0:
        return np.empty((n_rows, 0), dtype=np.int32)
    if size * size > n_items:  # drawing again until all are distinct would take for ever
        rows = [rng.permutation(n_items)[:size] for _ in range(n_rows)]
        return np.sort(np.array(rows, dtype=np.int32).reshape(n_rows, size), axis=1)
    # Drawn with repetition, and again where an item repeats: what remains is equally likely in every order.
    drawn = np.sort(rng.integers(0, n_items, (n_rows, size)), axis=1)
    while (clash := (np.diff(drawn, axis=1) == 0).any(axis=1)).any():
        drawn[clash] = np.sort(rng.integers(0, n_items, (int(clash.sum()), size)), axis=1)
    return drawn.astype(np.int32)


def _write(path: Path, **columns: Any) -> None:
    """A file as somebody would keep it: one line a row, with a header."""
    import pyarrow as pa
    from pyarrow import csv

    csv.write_csv(pa.table(columns), path)
