"""The bins that a point function is a function on, the tree over a bin, and the hash of the tree.

The hash of the tree: AES-128 under public keys, each output XORed with its input (Matyas-Meyer-Oseas).

H_k(x) = AES_k(x) XOR x on 16-byte blocks. The keys are not secret: they follow from a salt that a client draws
for each user's keys and sends along. Assumption: AES under these keys is a random permutation (the ideal-cipher
model), so H is a correlation-robust hash and what it makes of unknown seeds is pseudorandom. The salt makes work
that an attacker does in advance worthless, and leaves at most one user's seeds to be attacked together.

Reference: Matyas, Meyer and Oseas (1985); Guo, Katz, Wang and Yu (2020), "Efficient and secure multiparty
computation from fixed-key block ciphers", sec. 4 and 6.

Where a user's items go: each into a bin of its own, so that a key covers one bin instead of all items.

Three tables split all items into bins, each by an order of its own. A user's item goes into its bin of one of the
tables, no two into one bin (cuckoo hashing); every bin gets a key, those without an item the key of a zero. The
servers then evaluate three times the catalogue for each user, however many items she has room for, instead of the
whole catalogue for each item.

Reference: Angel, Chen, Laine and Setty (2018), "PIR with compressed queries and amortized query processing",
sec. 4.5; PREAMBLE (2025), arXiv:2503.11897.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedboard.common.arrays import BitArray, IntArray, ResidueArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseStream

RESIDUES_PER_BLOCK = 4
"""Residues modulo 2^32 in one AES block."""
_MOST_POINTS = 1 << 30
_MOST_WIDTH = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Rows ``0 .. n_points - 1`` of ``width`` residues modulo 2^32 each. Public.

    The tree ends early where several rows fit into one AES block: its leaf is then a few neighbouring rows.
    """

    n_points: int
    width: int

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: no points, no numbers, or more than is ever used.
        """
        if not 1 <= self.n_points <= _MOST_POINTS or not 1 <= self.width <= _MOST_WIDTH:
            raise InputError(
                f"a table of a point function has 1 to {_MOST_POINTS} rows of 1 to {_MOST_WIDTH} numbers, got "
                f"{self.n_points} rows of {self.width}"
            )

    @property
    def points_per_leaf(self) -> int:
        """Neighbouring rows in one leaf: 4, 2 or 1."""
        return max(1, RESIDUES_PER_BLOCK // self.width)

    @property
    def n_leaves(self) -> int:
        """Leaves that hold rows."""
        return -(-self.n_points // self.points_per_leaf)

    @property
    def levels(self) -> int:
        """Of the tree: 0 where there is one leaf."""
        return (self.n_leaves - 1).bit_length()

    @property
    def leaf_width(self) -> int:
        """Residues in one leaf."""
        return self.points_per_leaf * self.width

    @property
    def leaf_blocks(self) -> int:
        """AES blocks that hold the numbers of one leaf."""
        return -(-self.leaf_width // RESIDUES_PER_BLOCK)

    def nodes_at(self, level: int) -> int:
        """Nodes of this level above leaves that hold rows."""
        return -(-self.n_leaves >> self.levels - level)


SEED_BYTES = 16
SEED_MASK = np.uint64(2**64 - 2)
"""What the first word of a node is masked with: its lowest bit is the control bit and no part of the seed."""
_ROOM = 2  # words: a block cipher asks for room for a block more


class TreeHash:
    """The hashes of one batch of keys: left child, right child, and one for each block of a leaf's numbers."""

    def __init__(self, salt: bytes, *, blocks: int) -> None:
        """Derive the keys.

        Args:
            salt: 16 bytes, drawn afresh for each user's keys. Public.
            blocks: of a leaf.
        """
        self._sides = tuple(_permutation(salt, use) for use in (b"left", b"right"))
        self._leaf = tuple(_permutation(salt, b"leaf %d" % block) for block in range(blocks))

    def child(self, seeds: BitArray, side: int, *, out: BitArray) -> None:
        """Children of nodes on one side, before any correction.

        Args:
            seeds: uint64, contiguous, two words a node; control bits cleared.
            side: 0 or 1.
            out: where to, same shape.
        """
        np.bitwise_xor(_permuted(self._sides[side], seeds), seeds, out=out)

    def block(self, seeds: BitArray, block: int) -> BitArray:
        """Four of the numbers that leaves' seeds stand for.

        Args:
            seeds: uint64, contiguous, two words a leaf; control bits cleared.
            block: which four.

        Returns:
            uint64, same shape: two numbers a word.
        """
        found = _permuted(self._leaf[block], seeds)
        found ^= seeds
        return found


def expanded(seed: bytes, use: bytes, count: int) -> BitArray:
    """Pseudorandom words from one seed: AES-256 in counter mode; uint64, shape (count,).

    Args:
        seed: 16 bytes. Secret.
        use: what for; different uses of one seed have nothing in common.
        count: number of words.
    """
    key = hashlib.sha256(b"fedboard point function seed 1\0" + use + b"\0" + seed).digest()
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


def _permutation(salt: bytes, use: bytes) -> Any:
    key = hashlib.sha256(b"fedboard point function tree 1\0" + use + b"\0" + salt).digest()[:16]
    return block_cipher(key)


def block_cipher(key: bytes) -> Any:
    """AES-128 on whole buffers, block by block."""
    return Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # a permutation, not an encryption


def _permuted(permutation: Any, blocks: BitArray) -> BitArray:
    room = np.empty(blocks.size + _ROOM, dtype=np.uint64)
    permutation.update_into(blocks.data.cast("B"), room.data.cast("B"))
    return room[: blocks.size].reshape(blocks.shape)


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
