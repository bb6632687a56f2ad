"""Masks: a 32-byte key becomes a row of 32-bit words that nobody without it can tell from uniform ones.

AES-256 in counter mode from block 0 (NIST SP 800-38A), read as little-endian words. The key comes from the full
shared secret by HKDF-SHA256 (RFC 5869); nothing is folded to fewer bits on the way. A key serves one session, one
pair of clients and one vector, so no word of a mask is ever used for two numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

KEY_BYTES = 32
_WORD_BYTES = 4
_BLOCK_BYTES = 16
_WORDS_PER_CHUNK = 1 << 14  # 64 KiB: the chunk and the part of the vector it is added to stay in cache


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Mask:
    """One mask of a vector. Secret."""

    key: bytes
    """32 bytes, for this mask alone."""
    added: bool
    """Whether it is added or subtracted."""

    @property
    def reverse(self) -> "Mask":
        """What takes it away again."""
        return Mask(key=self.key, added=not self.added)


def derive_key(secret: bytes, *, use: bytes, session: bytes, parties: bytes = b"") -> bytes:
    """A key for one use: HKDF-SHA256 of the whole secret, 32 bytes.

    Args:
        secret: a shared secret of X25519 (32 bytes) or a seed of 128 random bits. Secret.
        use: what the key is for; a constant of the code, of any length.
        session: 32 bytes that no other session has.
        parties: identities of whom it concerns, of fixed length each.

    Reference: Krawczyk and Eronen (2010), RFC 5869.
    """
    info = b"fedboard masks 1 " + len(use).to_bytes(1, "big") + use + session + parties
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def apply_masks(vector: NDArray[np.uint32], masks: Iterable[Mask]) -> None:
    """Add or subtract masks modulo 2^32, in place.

    ``vector += sum_a AES-CTR(key_a) - sum_b AES-CTR(key_b)``, chunk by chunk, so that memory is read and written
    once however many masks there are. Holds one cipher for each mask and two chunks of 64 KiB.

    Args:
        vector: uint32, shape (n,). Private before, masked after.
        masks: in any order.
    """
    streams = [(key_stream(mask.key), np.add if mask.added else np.subtract) for mask in masks]
    room = np.empty(_WORDS_PER_CHUNK + _BLOCK_BYTES // _WORD_BYTES, dtype="<u4")
    zeros = memoryview(bytes(_WORD_BYTES * _WORDS_PER_CHUNK))
    for first in range(0, vector.size, _WORDS_PER_CHUNK):
        part = vector[first : first + _WORDS_PER_CHUNK]
        for stream, operation in streams:
            stream.update_into(zeros[: _WORD_BYTES * part.size], room.data.cast("B"))
            operation(part, room[: part.size], out=part)


def key_stream(key: bytes, *, counter: int = 0) -> Any:
    """AES-256 in counter mode, from this block on: an encryptor of ``cryptography``; of zeros it gives the mask."""
    return Cipher(algorithms.AES256(key), modes.CTR(counter.to_bytes(_BLOCK_BYTES, "big"))).encryptor()
