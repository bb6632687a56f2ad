"""A client's side: splits point functions into two servers' keys."""

import os

import numpy as np

from fedboard.common.arrays import BitArray, IntArray, ResidueArray
from fedboard.common.errors import InputError
from fedboard.common.protocols.two_server.dpf.domain import RESIDUES_PER_BLOCK, Domain
from fedboard.common.protocols.two_server.dpf.hashing import SEED_BYTES, SEED_MASK, TreeHash
from fedboard.common.protocols.two_server.dpf.keys import Corrections, roots

_ONE = np.uint64(1)


def generate(
    points: IntArray, values: ResidueArray, domain: Domain, *, seeds: tuple[bytes, bytes]
) -> Corrections:
    """Share functions that are ``values[k]`` at row ``points[k]`` and zero at every other row.

    Guarantee: whoever holds the corrections and one of the seeds learns neither points nor values, not even which
    of them are equal, as long as the hash is what ``hashing`` says; the size of what it sees depends on ``domain``
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
