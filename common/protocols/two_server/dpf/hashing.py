"""The hash of the tree: AES-128 under public keys, each output XORed with its input (Matyas-Meyer-Oseas).

H_k(x) = AES_k(x) XOR x on 16-byte blocks. The keys are not secret: they follow from a salt that a client draws
for each user's keys and sends along. Assumption: AES under these keys is a random permutation (the ideal-cipher
model), so H is a correlation-robust hash and what it makes of unknown seeds is pseudorandom. The salt makes work
that an attacker does in advance worthless, and leaves at most one user's seeds to be attacked together.

Reference: Matyas, Meyer and Oseas (1985); Guo, Katz, Wang and Yu (2020), "Efficient and secure multiparty
computation from fixed-key block ciphers", sec. 4 and 6.
"""

import hashlib
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedboard.common.arrays import BitArray

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
