"""Point functions, split into two servers' keys by a client and evaluated by each server.

Keys of point functions: corrections, which both servers get, and a 16-byte seed for each server.

A client's side: splits point functions into two servers' keys.

A server's side: what its keys say about every row of the table.

Arrays are ordered (leaf, key, words), and a leaf's numbers by blocks of four: every pass over memory then runs
along all keys of a user, and whoever sums over users never reorders anything.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, IntArray, ResidueArray
from fedboard.common.errors import InputError
from fedboard.common.messages.frame import pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.two_server.bins import (
    RESIDUES_PER_BLOCK,
    SEED_BYTES,
    SEED_MASK,
    Domain,
    TreeHash,
    expanded,
)

_KIND = "point-functions"
_WORD = 8
_NODE = 2 * _WORD
_ROOM = 4096
"""For the header of the frame."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Corrections:
    """What both servers get of a batch of point functions: pseudorandom to each of them."""

    salt: bytes
    """16 bytes that the hash's keys follow from."""
    nodes: BitArray
    """uint64, shape (n_keys, levels, 2): the level's seed correction; the lowest bit of the first word is the
    control bit of left children."""
    right: NDArray[np.uint8]
    """uint8, shape (n_keys, levels), 0 or 1: the control bit of right children."""
    numbers: ResidueArray
    """uint32, shape (n_keys, leaf width): of the leaf."""

    @property
    def n_keys(self) -> int:
        """Number of point functions."""
        return int(self.numbers.shape[0])

    def to_bytes(self) -> bytes:
        """As a frame, whose length depends on the number of keys and the domain alone."""
        arrays: dict[str, NDArray[Any]] = {
            "salt": np.frombuffer(self.salt, dtype=np.uint8),
            "nodes": self.nodes.reshape(self.n_keys, -1).view(np.uint8),
            "right": np.packbits(self.right, axis=1, bitorder="little"),
            "numbers": self.numbers,
        }
        return pack_frame(_KIND, {}, {name: array for name, array in arrays.items() if array.size})

    @staticmethod
    def from_bytes(content: bytes | memoryview, domain: Domain, *, n_keys: int) -> "Corrections":
        """Read what a client sent.

        Any content of the right shape is a correction: a client can share garbage, and nothing here can tell.

        Args:
            content: from a peer.
            domain: that the keys must be for.
            n_keys: how many there must be, >= 1.

        Raises:
            RefusedError: not so many keys of this domain.
        """
        levels = domain.levels
        shapes: dict[str, tuple[str, tuple[int | None, ...]]] = {
            "salt": ("u1", (SEED_BYTES,)),
            "numbers": ("u4", (n_keys, domain.leaf_width)),
        }
        if levels:
            shapes["nodes"] = ("u1", (n_keys, levels * _NODE))
            shapes["right"] = ("u1", (n_keys, -(-levels // 8)))
        frame = unpack_frame(content, kinds=(_KIND,), limit=most_bytes(domain, n_keys))
        arrays = dict(zip(shapes, frame.arrays_as(shapes), strict=True))
        if not levels:
            nodes, right = np.empty((n_keys, 0, 2), dtype=np.uint64), np.empty((n_keys, 0), dtype=np.uint8)
        else:
            nodes = np.ascontiguousarray(arrays["nodes"]).view(np.uint64).reshape(n_keys, levels, 2)
            bits = np.unpackbits(arrays["right"], axis=1, bitorder="little")
            if bits[:, levels:].any():
                raise RefusedError(Refusal.MALFORMED)
            right = bits[:, :levels]
        return Corrections(salt=arrays["salt"].tobytes(), nodes=nodes, right=right, numbers=arrays["numbers"])


def roots(seed: bytes, n_keys: int, *, party: int) -> BitArray:
    """The roots of one server's trees; uint64, shape (n_keys, 2), control bits set to its number.

    Args:
        seed: 16 bytes, this server's own. Secret.
        n_keys: how many trees.
        party: 0 or 1.
    """
    states = expanded(seed, b"roots", 2 * n_keys).reshape(n_keys, 2)
    states[:, 0] = states[:, 0] & SEED_MASK | np.uint64(party)
    return states


def most_bytes(domain: Domain, n_keys: int) -> int:
    """Most bytes that so many keys of a domain take."""
    return _ROOM + n_keys * (domain.levels * (_NODE + 1) + 4 * domain.leaf_width)


_ONE = np.uint64(1)


def generate(
    points: IntArray, values: ResidueArray, domain: Domain, *, seeds: tuple[bytes, bytes]
) -> Corrections:
    """Share functions that are ``values[k]`` at row ``points[k]`` and zero at every other row.

    Guarantee: whoever holds the corrections and one of the seeds learns neither points nor values, not even which
    of them are equal, as long as the hash is what ``TreeHash`` says; the size of what it sees depends on ``domain``
    and the number of keys alone.

    Args:
        points: int64, shape (n_keys,), each in ``0 .. n_points - 1``. Private.
        values: uint32, shape (n_keys, width). Private.
        domain: public.
        seeds: 16 random bytes for each server, used once. Secret from the other server.

    Returns:
        What both servers get; together with its seed it is a server's batch of keys.

    Raises:
        InputError: shapes or rows out of range.

    Reference: Boyle, Gilboa and Ishai (2016), "Function secret sharing: improvements and extensions", fig. 1.
    """
    _check(points, values, domain)
    n_keys = points.size
    salt = os.urandom(SEED_BYTES)
    hashed = TreeHash(salt, blocks=domain.leaf_blocks)
    states = np.stack([roots(seed, n_keys, party=party) for party, seed in enumerate(seeds)])
    leaves, offsets = np.divmod(points, domain.points_per_leaf)
    nodes = np.empty((n_keys, domain.levels, 2), dtype=np.uint64)
    right = np.empty((n_keys, domain.levels), dtype=np.uint8)
    for level in range(domain.levels):
        turn = (leaves >> domain.levels - 1 - level & 1).astype(np.uint64)
        states, nodes[:, level], right[:, level] = _descended(hashed, states, turn)
    numbers = _leaf_corrections(hashed, states, _placed(values, offsets, domain))
    return Corrections(salt=salt, nodes=nodes, right=right, numbers=numbers)


def _descended(hashed: TreeHash, states: BitArray, turn: BitArray) -> tuple[BitArray, BitArray, BitArray]:
    """One level down along the secret paths: the states there, and this level's corrections.

    Args:
        hashed: the message's hash.
        states: uint64, shape (2, n_keys, 2): party, key, words.
        turn: uint64, shape (n_keys,), 1 where the path goes right.
    """
    controls, seeds = _split(states)
    children = np.empty((2, *states.shape), dtype=np.uint64)
    for side in (0, 1):
        hashed.child(seeds, side, out=children[side])
    keys, side_kept = np.arange(turn.size), turn.astype(np.int64)
    differences = np.bitwise_xor(children[:, 0], children[:, 1])
    correction: BitArray = differences[1 - side_kept, keys]
    correction[:, 0] &= SEED_MASK
    left_bit: BitArray = differences[0, :, 0] & _ONE ^ turn ^ _ONE
    right_bit: BitArray = differences[1, :, 0] & _ONE ^ turn
    onward = correction.copy()
    onward[:, 0] |= np.where(turn == _ONE, right_bit, left_bit)
    kept: BitArray = children[side_kept, :, keys].transpose(1, 0, 2) ^ onward * controls
    correction[:, 0] |= left_bit
    return kept, correction, right_bit


def _leaf_corrections(hashed: TreeHash, states: BitArray, values: ResidueArray) -> ResidueArray:
    """(-1)^(control bit of the second server) (value - numbers of the first + numbers of the second)."""
    controls, seeds = _split(states)
    blocks = [hashed.block(seeds, block) for block in range(-(-values.shape[1] // RESIDUES_PER_BLOCK))]
    first, second = np.concatenate(blocks, axis=-1).view(np.uint32)[:, :, : values.shape[1]]
    numbers: ResidueArray = values - first + second
    negated = controls[1, :, 0].astype(bool)
    numbers[negated] = -numbers[negated]
    return numbers


def _split(states: BitArray) -> tuple[BitArray, BitArray]:
    """Control bits, shape (2, n_keys, 1), and seeds, shape (2, n_keys, 2)."""
    seeds = states.copy(order="C")
    seeds[:, :, 0] &= SEED_MASK
    return states[:, :, :1] & _ONE, seeds


def _placed(values: ResidueArray, offsets: IntArray, domain: Domain) -> ResidueArray:
    """Each value where its row stands in its leaf; uint32, shape (n_keys, leaf width)."""
    leaves = np.zeros((values.shape[0], domain.points_per_leaf, domain.width), dtype=np.uint32)
    leaves[np.arange(values.shape[0]), offsets] = values
    return leaves.reshape(values.shape[0], -1)


def _check(points: IntArray, values: ResidueArray, domain: Domain) -> None:
    if values.dtype != np.uint32 or values.shape != (points.size, domain.width):
        raise InputError(f"values of point functions must be uint32 of shape (n_keys, {domain.width})")
    if points.ndim != 1 or not points.size or points.min() < 0 or points.max() >= domain.n_points:
        raise InputError(f"point functions need one row in 0..{domain.n_points - 1} for each key")


_STATE_BYTES = 1 << 20
"""Of the leaves of a subtree, all keys together."""
_BLOCK_BYTES = 1 << 18
"""Of a block of leaves' numbers; a few such arrays stay in a core's cache."""
_NODE_BYTES = 16

LeafBlock = tuple[slice, int, ResidueArray]
"""(leaves, number of the block, uint32 of shape (leaves, n_keys, 4))."""


def leaf_blocks(corrections: Corrections, seed: bytes, domain: Domain, *, party: int) -> Iterator[LeafBlock]:
    """One server's shares of every leaf of every key, block by block, before the sign that ``rows_of`` gives them.

    Holds a few MiB. Time: for each key, two AES blocks for each inner node and one for every four numbers of every
    row. Both servers' rows add up to the functions' modulo 2^32.

    Args:
        corrections: from a client that need not be honest.
        seed: this server's own. Secret.
        domain: public.
        party: this server's number, 0 or 1.
    """
    hashed = TreeHash(corrections.salt, blocks=domain.leaf_blocks)
    tree = _Tree(hashed, corrections, domain)
    below = max(0, (_STATE_BYTES // (_NODE_BYTES * corrections.n_keys)).bit_length() - 1)
    split = max(0, domain.levels - below)
    top = tree.descend(
        roots(seed, corrections.n_keys, party=party)[np.newaxis], 0, split, domain.nodes_at(split)
    )
    numbers = _by_block(corrections.numbers, domain)
    step = 1 << domain.levels - split
    for node in range(top.shape[0]):
        first = node * step
        count = min(step, domain.n_leaves - first)
        leaves = tree.descend(top[node : node + 1], split, domain.levels, count)
        yield from _numbers(hashed, leaves, numbers, first)


def rows_of(total: ResidueArray, domain: Domain, *, party: int) -> ResidueArray:
    """Sums of leaf shares as this server's share of every row.

    Args:
        total: uint32, shape (leaf_blocks, n_leaves, n_keys, 4).
        domain: public.
        party: this server's number.

    Returns:
        uint32, shape (n_keys, n_points, width).
    """
    leaves = total.transpose(2, 1, 0, 3).reshape(total.shape[2], domain.n_leaves, -1)[
        :, :, : domain.leaf_width
    ]
    rows = leaves.reshape(total.shape[2], -1, domain.width)[:, : domain.n_points]
    return -rows if party else rows


class _Tree:
    """The trees of one message's keys, side by side."""

    def __init__(self, hashed: TreeHash, corrections: Corrections, domain: Domain) -> None:
        self._hashed, self._domain = hashed, domain
        self._nodes, self._right = corrections.nodes, corrections.right

    def descend(self, states: BitArray, level: int, to: int, most: int) -> BitArray:
        """The first ``most`` nodes of level ``to`` below nodes of a level; uint64, shape (nodes, n_keys, 2)."""
        for above in range(level, to):
            controls = _controls(states)
            states[:, :, 0] &= SEED_MASK
            children = np.empty((states.shape[0], 2, *states.shape[1:]), dtype=np.uint64)
            for side in (0, 1):
                self._hashed.child(states, side, out=children[:, side])
                children[:, side] ^= controls & self._correction(above, side)
            wanted = -(-most >> to - above - 1)
            states = children.reshape(-1, *states.shape[1:])[:wanted]
        return states

    def _correction(self, level: int, side: int) -> BitArray:
        correction = self._nodes[:, level].copy()
        if side:
            correction[:, 0] = correction[:, 0] & SEED_MASK | self._right[:, level]
        return correction


def _controls(states: BitArray) -> BitArray:
    """All ones where the control bit is set; uint64, both words of each node."""
    masks = np.empty(states.shape, dtype=np.uint64)
    np.negative(states[:, :, 0] & _ONE, out=masks[:, :, 0])
    masks[:, :, 1] = masks[:, :, 0]
    return masks


def _by_block(numbers: ResidueArray, domain: Domain) -> BitArray:
    """Leaf corrections in the order in which they are added; uint64, shape (leaf_blocks, n_keys, 2)."""
    padded = np.zeros((numbers.shape[0], domain.leaf_blocks * RESIDUES_PER_BLOCK), dtype=np.uint32)
    padded[:, : domain.leaf_width] = numbers
    blocks = padded.view(np.uint64).reshape(numbers.shape[0], domain.leaf_blocks, 2)
    return np.ascontiguousarray(blocks.transpose(1, 0, 2))


def _numbers(hashed: TreeHash, leaves: BitArray, corrections: BitArray, first: int) -> Iterator[LeafBlock]:
    n_leaves, n_keys = leaves.shape[:2]
    step = max(1, _BLOCK_BYTES // (_NODE_BYTES * n_keys))
    for start in range(0, n_leaves, step):
        part = leaves[start : start + step]
        controls = _controls(part)
        part[:, :, 0] &= SEED_MASK
        own = slice(first + start, first + start + part.shape[0])
        for block, correction in enumerate(corrections):
            numbers = hashed.block(part, block).view(np.uint32)
            numbers += (controls & correction).view(np.uint32)
            yield own, block, numbers
