"""Where a user's items go: each into a bin of its own, so that a key covers one bin instead of all items.

Three tables split all items into bins, each by an order of its own. A user's item goes into its bin of one of the
tables, no two into one bin (cuckoo hashing); every bin gets a key, those without an item the key of a zero. The
servers then evaluate three times the catalogue for each user, however many items she has room for, instead of the
whole catalogue for each item.

Reference: Angel, Chen, Laine and Setty (2018), "PIR with compressed queries and amortized query processing",
sec. 4.5; PREAMBLE (2025), arXiv:2503.11897.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import IntArray, ResidueArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseStream
from fedboard.common.protocols.two_server.dpf.domain import Domain

N_TABLES = 3
_BINS_PER_ITEM = 1.5
_MORE_BINS = 16
"""With three halves of a bin for each item, enough that fewer than one user in a million lacks a bin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """The bins of one round. Public."""

    orders: IntArray
    """int64, shape (3, n_items): place ``p`` of a table holds item ``orders[table, p]``; it is row
    ``p // per_table`` of the table's bin ``p % per_table``."""
    places: IntArray
    """int64, shape (3, n_items): the place of each item."""
    per_table: int
    """Bins of a table."""

    @staticmethod
    def of(about: bytes, *, n_items: int, most_items: int) -> "Bins":
        """The bins that everybody computes for a round.

        Args:
            about: the round; its bins are independent of those of other rounds.
            n_items: of the catalogue, >= 1.
            most_items: of a user, >= 1.

        Raises:
            InputError: a number out of range.
        """
        if n_items < 1 or most_items < 1:
            raise InputError(f"bins need at least one item and room for one, got {n_items} and {most_items}")
        orders = np.stack([_order(about, table, n_items) for table in range(N_TABLES)])
        places = np.argsort(orders, axis=1)
        return Bins(orders=orders, places=places, per_table=bins_per_table(most_items))

    @property
    def n_bins(self) -> int:
        """In all tables; so many keys a user has."""
        return N_TABLES * self.per_table

    @property
    def n_rows(self) -> int:
        """Rows of a bin, the last of which some have not."""
        return -(-int(self.orders.shape[1]) // self.per_table)

    def domain(self, width: int) -> Domain:
        """What the key of one bin is a function on."""
        return Domain(n_points=self.n_rows, width=width)

    def assign(self, items: IntArray) -> IntArray:
        """A bin for each item, no bin twice.

        Earlier items come first: one that is moved finds another bin, one that finds none is a later one, with a
        probability below 1e-6 for all items of a user together.

        Args:
            items: int64, distinct. Private.

        Returns:
            int64, same shape: the bin, or -1 where no bin is left.
        """
        tables = np.arange(N_TABLES)[:, np.newaxis] * self.per_table
        choices = (tables + self.places[:, items] % self.per_table).T.tolist()
        owner: dict[int, int] = {}
        for place in range(items.size):
            _find(place, choices, owner)
        bins = np.full(items.size, -1, dtype=np.int64)
        for found, place in owner.items():
            bins[place] = found
        return bins

    def rows(self, items: IntArray, bins: IntArray) -> IntArray:
        """The row of each item in its bin; int64."""
        found: IntArray = self.places[bins // self.per_table, items] // self.per_table
        return found

    def by_item(self, values: ResidueArray) -> ResidueArray:
        """Sums of bins as sums of items.

        Args:
            values: uint32, shape (n_bins, n_rows, width).

        Returns:
            uint32, shape (n_items, width).
        """
        n_items = self.orders.shape[1]
        tables = values.reshape(N_TABLES, self.per_table, *values.shape[1:]).transpose(0, 2, 1, 3)
        total = np.zeros((n_items, values.shape[2]), dtype=np.uint32)
        for order, table in zip(self.orders, tables, strict=True):
            total[order] += table.reshape(-1, values.shape[2])[:n_items]
        return total


def bins_per_table(most_items: int) -> int:
    """How many bins a table has where users have room for so many items."""
    return -(-(int(_BINS_PER_ITEM * most_items) + _MORE_BINS) // N_TABLES)


def _order(about: bytes, table: int, n_items: int) -> IntArray:
    """An order of the items that is the same on every machine."""
    key = hashlib.sha256(b"fedboard bins 1\0%d\0" % table + about).digest()
    return np.argsort(NoiseStream(key=key).bits(0, n_items), kind="stable")


def _find(place: int, choices: list[list[int]], owner: dict[int, int]) -> None:
    """Give one item a bin, moving others along a shortest path to a free one; nothing changes without one."""
    came_from: dict[int, tuple[int, int | None]] = {}
    wave: list[tuple[int, int | None]] = [(place, None)]
    while wave:
        following: list[tuple[int, int | None]] = []
        for item, left in wave:
            for candidate in choices[item]:
                if candidate in came_from:
                    continue
                came_from[candidate] = (item, left)
                if candidate not in owner:
                    _move(candidate, came_from, owner)
                    return
                following.append((owner[candidate], candidate))
        wave = following


def _move(free: int, came_from: dict[int, tuple[int, int | None]], owner: dict[int, int]) -> None:
    target: int | None = free
    while target is not None:
        item, left = came_from[target]
        owner[target] = item
        target = left
