"""Which item of a catalogue a rating is about: by id, or by the title that was typed before there was a board.

One person's ratings in a file of her own: SQLite, readable by her account alone, erased when deleted.

Ratings are kept by the publisher's item id, not by number, so that a new catalogue does not break them. A title
that was typed before there was a board is kept as it is, and found in the catalogue when one comes.

Why these settings: with ``secure_delete`` what is deleted is overwritten with zeros in the file; with a rollback
journal instead of a write-ahead log nothing old stays behind in a second file once a change is done. Not
guaranteed: that the disk below (flash, snapshots, backups) forgets it too; that takes an encrypted disk.
"""

import math
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedboard.client.recommending.catalogue_search import ItemIndex
from fedboard.client.recommending.recommend import rating_range_of
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import FedboardError, InputError, StorageError
from fedboard.common.privacy.ledger.chain_rows import transaction


def placed_items(items: Iterable[str], catalogue: Catalogue) -> dict[str, int]:
    """Item as the store names it -> its number in the catalogue; what is on no item is left out.

    An id goes before a title that reads the same. A title that several items share is on none of them. Where two
    entries of the store name one item, the id counts, or else the first in the order of the store.

    Args:
        items: as the store has them. Private.
        catalogue: of the board. Public.
    """
    own = list(items)
    numbers = {item_id: number for number, item_id in enumerate(catalogue.item_ids)}
    found = {item: numbers[item] for item in own if item in numbers}
    others = [item for item in own if item not in numbers]
    if others and catalogue.titles is not None:
        index, taken = ItemIndex(catalogue), set(found.values())
        for item in others:
            number = index.titled(item)
            if number is not None and number not in taken:
                found[item] = number
                taken.add(number)
    return found


_APPLICATION = 0x46425253  # "FBRS", so that the file tells what it is
_SCHEMA = 1
_LONGEST_ID = 1000
_TABLE = """CREATE TABLE ratings (
    item TEXT PRIMARY KEY NOT NULL,
    rating REAL NOT NULL,
    rated_at INTEGER
) WITHOUT ROWID"""
_UPSERT = """INSERT INTO ratings (item, rating, rated_at) VALUES (?, ?, ?)
    ON CONFLICT (item) DO UPDATE SET rating = excluded.rating, rated_at = excluded.rated_at"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRating:
    """One rating. Private."""

    item: str
    """The publisher's item id."""
    rating: float
    """Finite, in the unit of whoever wrote it down; 1.0 where being listed is the rating."""
    rated_at: int | None = None
    """Seconds since 1970 (UTC), where known. Nothing is computed from it."""

    def __post_init__(self) -> None:
        """Check what can be checked without a board.

        Raises:
            InputError: no item id, or not a finite number.
        """
        if not self.item.strip() or not self.item.isprintable() or len(self.item) > _LONGEST_ID:
            raise InputError(
                f"an item id must be a printable text of at most {_LONGEST_ID} characters, got {self.item!r}"
            )
        if not math.isfinite(self.rating):
            raise InputError(f"a rating must be a finite number, got {self.rating}")


class RatingStore:
    """The ratings of one person. Every change is on disk, whole, when the call returns, or was not made.

    Several processes may use one file: each change is one transaction.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, first_row: int = 0) -> None:
        """Use ``RatingStore.create`` or ``RatingStore.open``."""
        self.path = path
        self._connection = connection
        self._first_row = first_row

    @classmethod
    def create(cls, path: Path) -> "RatingStore":
        """Start an empty store, readable and writable by its owner alone (mode 0600).

        Raises:
            InputError: the file exists already, or its folder does not.
        """
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise InputError(f"{path}: no rating store can be made there ({error.strerror})") from error
        connection = _connect(path)
        with _failures(path), transaction(connection):
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_SCHEMA}")
        return cls(path, connection)

    @classmethod
    def open(cls, path: Path, *, first_row: int = 0) -> "RatingStore":
        """Open a store that exists.

        Args:
            path: the file.
            first_row: number of her row in the population, where a run numbers its users. Public.

        Raises:
            InputError: no such file, not a rating store, or of another version.
            StorageError: damaged or unreadable.
        """
        if not path.is_file():
            raise InputError(f"{path}: there is no rating store; make one with `fedboard ratings init`")
        connection = _connect(path)
        try:
            with _failures(path):
                _require_ours(path, connection)
                if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                    raise StorageError(f"{path}: the rating store is damaged; restore it or import again")
        except BaseException:
            connection.close()
            raise
        return cls(path, connection, first_row=first_row)

    def put(self, ratings: Iterable[OwnRating]) -> int:
        """Add ratings; what was there of the same items is replaced. All of them or none.

        Returns:
            How many items are new.
        """
        rows = [(own.item, own.rating, own.rated_at) for own in ratings]
        with self._writing():
            before = self._count()
            self._connection.executemany(_UPSERT, rows)
            return self._count() - before

    def remove(self, item: str) -> None:
        """Delete one rating.

        Raises:
            InputError: there is none of this item.
        """
        with self._writing():
            if self._connection.execute("DELETE FROM ratings WHERE item = ?", (item,)).rowcount == 0:
                raise InputError(f"there is no rating of item {item!r}")

    def delete_all(self) -> int:
        """Delete every rating; afterwards the file holds none of their bytes.

        Returns:
            How many there were.
        """
        with self._writing():
            found = self._count()
            self._connection.execute("DELETE FROM ratings")
        with _failures(self.path):
            self._connection.execute("VACUUM")
        return found

    def ratings(self) -> tuple[OwnRating, ...]:
        """All ratings, by item id."""
        with _failures(self.path):
            rows = self._connection.execute(
                "SELECT item, rating, rated_at FROM ratings ORDER BY item"
            ).fetchall()
        return tuple(OwnRating(item=item, rating=rating, rated_at=at) for item, rating, at in rows)

    def __len__(self) -> int:
        """Number of ratings."""
        with _failures(self.path):
            return self._count()

    @property
    def n_users(self) -> int:
        """One person."""
        return 1

    def cohort(self, board: Board) -> Cohort:
        """Her row in a board's catalogue; what the board cannot use is left out.

        Args:
            board: public.

        Returns:
            A cohort of one, perhaps without ratings. Private: it stays on the device.
        """
        low, high = rating_range_of(board) or (-math.inf, math.inf)
        implicit = math.isinf(high)
        own = self.ratings()
        numbers = placed_items((rated.item for rated in own), board.catalogue)
        known = [(numbers[rated.item], rated.rating) for rated in own if rated.item in numbers]
        placed = sorted((number, 1.0 if implicit else r) for number, r in known if low <= r <= high)
        return Cohort(
            indptr=np.array([0, len(placed)], dtype=np.int64),
            items=np.array([number for number, _ in placed], dtype=np.int32),
            ratings=np.array([rating for _, rating in placed], dtype=np.float32),
            n_items=board.catalogue.n_items,
            first_row=self._first_row,
        )

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        self._connection.close()

    def __enter__(self) -> "RatingStore":
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _count(self) -> int:
        (number,) = self._connection.execute("SELECT count(*) FROM ratings").fetchone()
        return int(number)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with _failures(self.path), transaction(self._connection):
            yield


def _connect(path: Path) -> sqlite3.Connection:
    with _failures(path):
        path.chmod(0o600)  # a copy may have come with wider rights
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
    return connection


def _require_ours(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise InputError(f"{path}: this is not a rating store")
    if schema != _SCHEMA:
        raise InputError(
            f"{path}: a rating store of version {schema}; this version of fedboard reads {_SCHEMA}"
        )


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Turn what the storage reports into one sentence; it quotes no rating."""
    try:
        yield
    except FedboardError:
        raise
    except sqlite3.OperationalError as error:
        raise StorageError(f"{path}: the storage failed ({error}); nothing was changed") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter from SQLite's own words
        raise StorageError(
            f"{path}: the rating store is damaged ({error}); restore it or import again"
        ) from error
    except OSError as error:
        raise StorageError(f"{path}: the storage failed ({error.strerror}); nothing was changed") from error
