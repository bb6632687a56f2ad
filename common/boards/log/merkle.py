"""The Merkle tree of RFC 6962, section 2.1, over SHA-256: its root, and proofs that leaves stay where they are.

Proofs are checked by the algorithms of RFC 9162, sections 2.1.3.2 and 2.1.4.2.
"""

import hashlib
from collections.abc import Sequence

HASH_BYTES = 32
_LEAF, _NODE = b"\x00", b"\x01"
EMPTY_ROOT = hashlib.sha256().digest()


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf; the prefix keeps it apart from that of an inner node."""
    return hashlib.sha256(_LEAF + entry).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root of a tree.

    Args:
        leaves: hashes, 32 bytes each, as of ``leaf_hash``.
    """
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    k = _split(len(leaves))
    return _node(root_of(leaves[:k]), root_of(leaves[k:]))


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """What leads from a leaf to the root: its sibling first.

    Raises:
        ValueError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise ValueError(f"index must be in [0, {len(leaves)}), got {index}")
    if len(leaves) == 1:
        return []
    k = _split(len(leaves))
    if index < k:
        return [*inclusion_proof(leaves[:k], index), root_of(leaves[k:])]
    return [*inclusion_proof(leaves[k:], index - k), root_of(leaves[:k])]


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """What shows that the first ``old_size`` leaves are an earlier tree; empty from nothing, and to the same tree.

    Raises:
        ValueError: the tree is not as large.
    """
    if not 0 <= old_size <= len(leaves):
        raise ValueError(f"old_size must be in [0, {len(leaves)}], got {old_size}")
    return [] if old_size == 0 else _grown(leaves, old_size, whole=True)


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether a leaf has this index in the tree of this size and root."""
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, leaf
    for step in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = _node(step, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = _node(found, step)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def is_consistent(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether a tree is an earlier one with leaves added behind."""
    if not 0 <= old_size <= size:
        return False
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    if old_size == size:
        return not proof and old_root == root
    steps = list(proof)
    if old_size & (old_size - 1) == 0:  # a complete tree stands in the new one as it is
        steps.insert(0, old_root)
    if not steps:
        return False
    place, last = old_size - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old, new = steps[0], steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = _node(step, old), _node(step, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = _node(new, step)
        place, last = place >> 1, last >> 1
    return last == 0 and old == old_root and new == root


def _grown(leaves: Sequence[bytes], old_size: int, *, whole: bool) -> list[bytes]:
    """SUBPROOF of the RFC; ``whole``: the old tree is a subtree whose root the reader has."""
    if old_size == len(leaves):
        return [] if whole else [root_of(leaves)]
    k = _split(len(leaves))
    if old_size <= k:
        return [*_grown(leaves[:k], old_size, whole=whole), root_of(leaves[k:])]
    return [*_grown(leaves[k:], old_size - k, whole=False), root_of(leaves[:k])]


def _split(size: int) -> int:
    """The largest power of two below a size > 1."""
    return 1 << (size - 1).bit_length() - 1


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()
