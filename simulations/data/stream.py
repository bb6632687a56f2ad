"""What ratings that do not fit into memory look like: rows of users that are read a block at a time.

Ratings that are in memory, as a stream.
"""

import hashlib
import math
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data.ratings import Ratings


class UserStream(Protocol):
    """Ratings of any number of users. A handle: small and picklable, so that each worker opens for itself what it
    reads; it holds no ratings, unless they are in memory anyway.

    Guarantee: ``read`` gives the same bits for a user whatever block she is read in and by whom, for as long as
    ``identity`` is the same.
    """

    @property
    def name(self) -> str:
        """Short name for reports and for the statement of the data."""

    @property
    def identity(self) -> str:
        """Hex digest of what decides about every rating, such as a manifest with the digests of its files, or a
        generator's settings and seed. Partial sums are only ever continued over the same one. Private where it
        is of ratings.
        """

    @property
    def n_users(self) -> int:
        """Rows are ``0..n_users - 1``; a row is one user, whole."""

    @property
    def rating_range(self) -> tuple[float, float]:
        """Lowest and highest rating, both inclusive. Public."""

    @property
    def presence(self) -> bool:
        """Whether an entry says only that somebody used an item, as ``Ratings.presence``. Public."""

    @property
    def items_listed(self) -> bool:
        """Whether the list of items stands apart from the ratings, as ``Ratings.items_listed``. Public."""

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """Shape (n_items,). Public."""

    @property
    def titles(self) -> tuple[str, ...] | None:
        """One per item, where there are any. Public."""

    @property
    def n_items(self) -> int:
        """Size of the catalogue. Public."""

    def counts(self, start: int, stop: int) -> IntArray:
        """How many ratings each of users ``start:stop`` has, int64, shape (stop - start,), as ``read`` gives them.

        Memory: of these numbers; blocks are cut by them. Private.
        """

    def read(self, start: int, stop: int) -> Cohort:
        """All ratings of users ``start:stop``: items ascending and unique within a row, values within
        ``rating_range``, ``user_keys`` as of ``fedboard.simulations.data.id_keys``, ``first_row = start``.

        Memory: of the block. Private.

        Raises:
            InputError: what is there cannot be read, or is no longer what ``identity`` says.
        """


ROOM_OF_A_USER = 4
"""What a user takes beside her ratings, her vector and her key, in ratings."""


_NUMBERS = "numbers.npy"


def write_rows(folder: Path, rows: Cohort, *, while_open: ExitStack | None = None) -> None:
    """Write some users' rows to a new private folder, from which several processes map them. Private.

    Args:
        folder: made, for its owner alone.
        rows: private.
        while_open: on Linux the rows are in memory alone, and gone when this is closed or the process ends, also by
            a kill: the folder has links to them. None: they are in the folder until somebody removes it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    arrays: dict[str, NDArray[Any]] = {
        "indptr": rows.indptr,
        "items": rows.items,
        "ratings": rows.ratings,
        "user_keys": rows.keys,
    }
    arrays |= {} if rows.features is None else {"features": rows.features}
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        if while_open is not None and sys.platform == "linux":
            held = while_open.enter_context(os.fdopen(os.memfd_create(name), "wb"))
            path.symlink_to(f"/proc/{os.getpid()}/fd/{held.fileno()}")
        np.save(path, array)
    np.save(folder / _NUMBERS, np.array([rows.n_items, rows.first_row], dtype=np.int64))


def mapped_rows(folder: Path) -> Cohort:
    """The rows of ``write_rows``, mapped and not copied; what a process writes to them it alone sees. Private."""
    arrays = {
        path.stem: np.load(path, mmap_mode="c").view(np.ndarray)
        for path in (
            folder / f"{name}.npy" for name in ("indptr", "items", "ratings", "user_keys", "features")
        )
        if path.exists()
    }
    n_items, first_row = (int(number) for number in np.load(folder / _NUMBERS))
    return Cohort(n_items=n_items, first_row=first_row, **arrays)


_mapped_once = lru_cache(maxsize=2)(mapped_rows)
"""A worker gets a handle with each job, and maps what it stands for once."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldStream:
    """Rows that are held in memory and do not change, as a stream.

    It pickles with them, or with the folder from which they are mapped.
    """

    held: Cohort | Path
    """The rows, or the folder from which they are mapped. Private."""
    n_users: int
    n_items: int
    name: str = "held ratings"
    identity: str = "held"
    rating_range: tuple[float, float] = (-math.inf, math.inf)
    presence: bool = False
    items_listed: bool = False
    titles: tuple[str, ...] | None = None
    ids: NDArray[np.str_] | None = None
    """Of the items; None: their numbers, where nothing is held out of what is held, so that ids decide nothing."""

    @staticmethod
    def of(rows: Cohort) -> "HeldStream":
        """Of all users' rows."""
        return HeldStream(held=rows, n_users=rows.n_users, n_items=rows.n_items)

    @classmethod
    def of_ratings(cls, ratings: Ratings) -> Self:
        """All ratings of a data set, rows in their order: for small data, and to see that blocks change nothing.

        Raises:
            InputError: the data set brings a test part of its own, which a stream has no place for.
        """
        if ratings.test is not None:
            raise InputError(
                f"{ratings.name} brings a test part of its own, and a stream has none: run it without "
                "run.streamed"
            )
        cohort = ratings.cohort()
        return cls(
            held=cohort,
            n_users=ratings.n_users,
            n_items=ratings.n_items,
            name=ratings.name,
            identity=_digest(ratings, cohort),
            rating_range=ratings.rating_range,
            presence=ratings.presence,
            items_listed=ratings.items_listed,
            titles=ratings.titles,
            ids=ratings.item_ids,
        )

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """Shape (n_items,). Public."""
        return self.ids if self.ids is not None else np.array([str(item) for item in range(self.n_items)])

    @property
    def rows(self) -> Cohort:
        """All users' rows, without copying. Private."""
        return self.held if isinstance(self.held, Cohort) else _mapped_once(self.held)

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of these users."""
        return np.diff(self.rows.indptr[start : stop + 1])

    def read(self, start: int, stop: int) -> Cohort:
        """These users' rows; copied where nobody may write them, since compiled kernels take such arrays for a type
        of its own.
        """
        rows = self.rows.rows(start, stop)
        if rows.items.flags.writeable and rows.indptr.flags.writeable:
            return rows
        return replace(
            rows,
            indptr=np.array(rows.indptr),
            items=np.array(rows.items),
            ratings=np.array(rows.ratings),
            user_keys=np.array(rows.keys),
            features=None if rows.features is None else np.array(rows.features),
        )


def _digest(ratings: Ratings, cohort: Cohort) -> str:
    """Of every rating, key and item: whoever knows it could test a guess at all of them, and at nothing less."""
    found = hashlib.sha256(f"{ratings.name}\n{ratings.rating_range}\n{ratings.presence}\n".encode())
    for array in (cohort.indptr, cohort.items, cohort.ratings, cohort.keys):
        found.update(np.ascontiguousarray(array).data)
    found.update("\n".join(ratings.item_ids.tolist()).encode("utf-8", "surrogatepass"))
    return found.hexdigest()
