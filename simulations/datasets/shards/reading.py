"""A sharded data set as a stream of users: a handle that each process opens for itself."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.shards.manifest import read_manifest
from fedboard.simulations.datasets.shards.opened import Opened, opened
from fedboard.simulations.datasets.shards.user_rows import UserRows


def open_shards(path: str | Path) -> "ShardedRatings":
    """The data set in a folder that ``fedboard data shard`` has made, or whoever keeps to its format.

    Args:
        path: of the folder.

    Raises:
        InputError: there is no manifest, or it is damaged or contradicts itself.
    """
    folder = Path(path).absolute()
    return ShardedRatings(folder=folder, identity=read_manifest(folder)[1])


@dataclass(frozen=True, slots=True, repr=False)
class ShardedRatings:
    """Ratings in a folder of shards, see ``fedboard.simulations.streams.stream.UserStream``.

    It holds a path alone, so it pickles to nothing; what it reads is opened once in each process, and the last row
    groups are kept there.

    Guarantee: whatever blocks are read, a user has the same entries, in memory of the block and two row groups. The
    digest of a shard is checked when a process first reads of it, every row whenever it is read.
    Not guaranteed: anything about whoever can write to the folder.
    """

    folder: Path
    identity: str
    """SHA-256 of the manifest, which holds those of all files."""

    @property
    def _opened(self) -> Opened:
        return opened(self.folder, self.identity)

    @property
    def name(self) -> str:
        """Short name for reports."""
        return self._opened.manifest.name

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return self._opened.manifest.users

    @property
    def n_ratings(self) -> int:
        """Number of ratings. Private."""
        return self._opened.manifest.ratings

    @property
    def rating_range(self) -> tuple[float, float]:
        """Lowest and highest rating, both inclusive. Public."""
        return self._opened.manifest.rating_range

    @property
    def presence(self) -> bool:
        """Whether an entry says only that somebody used an item. Public."""
        return self._opened.manifest.presence

    @property
    def items_listed(self) -> bool:
        """Whether the list of items stands apart from the ratings. Public."""
        return self._opened.manifest.items_listed

    @property
    def has_times(self) -> bool:
        """Whether it says when ratings were given. Public."""
        return self._opened.manifest.times

    @property
    def n_items(self) -> int:
        """Size of the catalogue. Public."""
        return self._opened.manifest.items.count

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """Shape (n_items,). Public."""
        return self._opened.catalogue[0]

    @property
    def titles(self) -> tuple[str, ...] | None:
        """One for each item, where there are any. Public."""
        return self._opened.catalogue[1]

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of users ``start:stop``, int64, shape (stop - start,). Private.

        Raises:
            InputError: as of ``read``.
        """
        self._require_users(start, stop)
        parts = [np.diff(rows.indptr) for rows in self._opened.rows(start, stop, "counts")]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    def read(self, start: int, stop: int) -> Cohort:
        """All ratings of users ``start:stop``: items ascending, ``user_keys`` set, ``first_row = start``. Private.

        Args:
            start: first user.
            stop: one past the last.

        Raises:
            InputError: there are no such users, or what is there is not as the manifest says: damaged, changed,
                exchanged, or never right.
        """
        self._require_users(start, stop)
        parts = list(self._opened.rows(start, stop, "ratings"))
        found = UserRows.joined(parts)
        return Cohort(
            indptr=found.indptr,
            items=found.items,
            ratings=found.values,
            n_items=self.n_items,
            first_row=start,
            user_keys=found.keys,
        )

    def times(self, start: int, stop: int) -> IntArray:
        """When each rating of ``read(start, stop)`` was given, int64, in its order. Private.

        Raises:
            InputError: the shards do not say, or as of ``read``.
        """
        self._require_users(start, stop)
        if not self.has_times:
            raise InputError(
                f"{self.folder}: these shards do not say when anything was rated, so they cannot be split by time; "
                "make them again with the column that says when (--columns time=NAME), without --no-times."
            )
        return UserRows.joined(list(self._opened.rows(start, stop, "times"))).times

    def _require_users(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.n_users:
            raise InputError(
                f"{self.folder}: users {start}:{stop} were asked for, and there are 0:{self.n_users}."
            )
