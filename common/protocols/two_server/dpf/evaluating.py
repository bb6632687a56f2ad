"""A server's side: what its keys say about every row of the table.

Arrays are ordered (leaf, key, words), and a leaf's numbers by blocks of four: every pass over memory then runs
along all keys of a user, and whoever sums over users never reorders anything.
"""

from collections.abc import Iterator

import numpy as np

from fedboard.common.arrays import BitArray, ResidueArray
from fedboard.common.protocols.two_server.dpf.domain import RESIDUES_PER_BLOCK, Domain
from fedboard.common.protocols.two_server.dpf.hashing import SEED_MASK, TreeHash
from fedboard.common.protocols.two_server.dpf.keys import Corrections, roots

_STATE_BYTES = 1 << 20
"""Of the leaves of a subtree, all keys together."""
_BLOCK_BYTES = 1 << 18
"""Of a block of leaves' numbers; a few such arrays stay in a core's cache."""
_NODE_BYTES = 16
_ONE = np.uint64(1)

LeafBlock = tuple[slice, int, ResidueArray]
"""(leaves, number of the block, uint32 of shape (leaves, n_keys, 4))."""


def evaluate_all(corrections: Corrections, seed: bytes, domain: Domain, *, party: int) -> ResidueArray:
    """One server's share of the sum of all point functions of a batch, at every row.

    Holds the result and a few MiB. Time: for each key, two AES blocks for each inner node and one for every four
    numbers of every row.

    Args:
        corrections: from a client that need not be honest.
        seed: this server's own. Secret.
        domain: public.
        party: this server's number, 0 or 1.

    Returns:
        uint32, shape (n_points, width); both servers' results add up to the sum modulo 2^32.
    """
    total = np.zeros((domain.leaf_blocks, domain.n_leaves, RESIDUES_PER_BLOCK), dtype=np.uint32)
    for leaves, block, numbers in leaf_blocks(corrections, seed, domain, party=party):
        total[block, leaves] += _summed(numbers)
    rows: ResidueArray = rows_of(total[:, :, np.newaxis], domain, party=party)[0]
    return rows


def leaf_blocks(corrections: Corrections, seed: bytes, domain: Domain, *, party: int) -> Iterator[LeafBlock]:
    """One server's shares of every leaf of every key, block by block, before the sign that ``rows_of`` gives them.

    Args: as for ``evaluate_all``.
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


def _summed(numbers: ResidueArray) -> ResidueArray:
    """Over keys, half of them at a time: long passes instead of many short ones; changes its argument."""
    n_keys = numbers.shape[1]
    while n_keys > 1:
        half = n_keys // 2
        numbers[:, :half] += numbers[:, n_keys - half : n_keys]
        n_keys -= half
    return numbers[:, 0]
