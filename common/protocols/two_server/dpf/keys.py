"""Keys of point functions: corrections, which both servers get, and a 16-byte seed for each server."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, ResidueArray
from fedboard.common.protocols.two_server.dpf.domain import Domain
from fedboard.common.protocols.two_server.dpf.hashing import SEED_BYTES, SEED_MASK, expanded
from fedboard.common.wire.frame import pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError

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
        shapes: dict[str, tuple[str, tuple[int, ...]]] = {
            "salt": ("u1", (SEED_BYTES,)),
            "numbers": ("u4", (n_keys, domain.leaf_width)),
        }
        if levels:
            shapes["nodes"] = ("u1", (n_keys, levels * _NODE))
            shapes["right"] = ("u1", (n_keys, -(-levels // 8)))
        arrays = unpack_frame(content, kinds=(_KIND,), limit=most_bytes(domain, n_keys)).arrays
        found = {name: (array.dtype.str[1:], array.shape) for name, array in arrays.items()}
        if found != shapes:
            raise RefusedError(Refusal.MALFORMED)
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
