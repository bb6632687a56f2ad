"""Masks that cancel in a sum, and shares of their secrets, for when somebody drops out.

Keys of one session: two X25519 pairs a client, one for encrypting shares, one for masks.

They are two because the private half of the second may be given away, share by share, when its owner drops out; the
first never is (Bonawitz et al. 2017, section 6). The second follows from a seed of 16 bytes, so that the seed can
be shared and whoever puts it together can hold it against the public half.

Boxes: the shares that one client gives another, on their way through the server, which cannot read them.

ChaCha20-Poly1305 (RFC 8439) under a key of X25519 and HKDF-SHA256 that serves one message in one direction.

Secrets of 16 bytes in shares: any ``needed`` of them give the secret, fewer say nothing at all about it.

Shamir's scheme modulo the prime 2^130 - 5: share x is the value at x of a random polynomial of degree needed - 1
whose value at 0 is the secret. Python's whole numbers carry it; how long that takes may depend on them, which is
not hidden here.

Reference: Shamir (1979), doi:10.1145/359168.359176.

Masks: a 32-byte key becomes a row of 32-bit words that nobody without it can tell from uniform ones.

AES-256 in counter mode from block 0 (NIST SP 800-38A), read as little-endian words. The key comes from the full
shared secret by HKDF-SHA256 (RFC 5869); nothing is folded to fewer bits on the way. A key serves one session, one
pair of clients and one vector, so no word of a mask is ever used for two numbers.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fedboard.common.messages.refusals import Refusal, RefusedError

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


PUBLIC_BYTES = 32
SEED_BYTES = 16


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """One X25519 pair. Secret."""

    _private: X25519PrivateKey

    @staticmethod
    def of(private: bytes) -> "KeyPair":
        """The pair of 32 secret bytes."""
        return KeyPair(X25519PrivateKey.from_private_bytes(private))

    @staticmethod
    def from_seed(seed: bytes, *, session: bytes) -> "KeyPair":
        """The pair of a seed.

        Args:
            seed: 16 bytes. Secret.
            session: 32 bytes that no other session has.
        """
        return KeyPair.of(derive_key(seed, use=b"private key", session=session))

    @property
    def public(self) -> bytes:
        """The half that is told, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def shared(self, public: bytes) -> bytes:
        """The secret shared with the owner of another pair: X25519 (RFC 7748), 32 bytes.

        Args:
            public: from a peer.

        Raises:
            RefusedError: not 32 bytes, or a point of low order, with which every secret would be the same.
        """
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise RefusedError(Refusal.MALFORMED) from None


def require_usable(public: bytes) -> None:
    """Refuse a public half that nobody can agree on a secret with.

    Raises:
        RefusedError: not 32 bytes, or a point of low order.
    """
    KeyPair(X25519PrivateKey.generate()).shared(public)


SECRET_BYTES = 16
SHARE_BYTES = 17
NO_SHARE = b"\xff" * SHARE_BYTES
"""Stands where there is none: larger than the prime, so no share."""
_PRIME = 2**130 - 5
_MOST_TRIES = 64


def split(secret: bytes, *, needed: int, count: int) -> list[bytes]:
    """Shares number 1 to ``count``, 17 bytes each.

    Args:
        secret: 16 bytes.
        needed: how many give it back, 1 to ``count``.
        count: how many there are.
    """
    if len(secret) != SECRET_BYTES or not 1 <= needed <= count:
        raise ValueError(f"a secret of {SECRET_BYTES} bytes and 1 <= needed <= count are asked for")
    higher = [secrets.randbelow(_PRIME) for _ in range(needed - 1)]
    lowest = int.from_bytes(secret, "little")
    return [_value(higher, lowest, x).to_bytes(SHARE_BYTES, "little") for x in range(1, count + 1)]


def combine(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret that all these shares together give; None where it would not have 16 bytes.

    Args:
        shares: by number, exactly as many as are needed, each one ``usable``.
    """
    points = {x: int.from_bytes(share, "little") for x, share in shares.items()}
    total, product = 0, prod(points)
    for x, value in points.items():  # Lagrange: the product of all other / (other - x)
        below = x
        for other in points:
            if other != x:
                below = below * (other - x) % _PRIME
        total += value * pow(below, -1, _PRIME)
    secret = total * product % _PRIME
    return secret.to_bytes(SECRET_BYTES, "little") if secret.bit_length() <= 8 * SECRET_BYTES else None


def usable(share: bytes) -> bool:
    """Whether these bytes are a number below the prime."""
    return len(share) == SHARE_BYTES and int.from_bytes(share, "little") < _PRIME


def recover(shares: Mapping[int, bytes], *, needed: int, right: Callable[[bytes], bool]) -> bytes | None:
    """The secret, although some shares may be wrong.

    Tries sets of shares until one gives a secret that is right: the first ones, then random ones, 64 in all. With a
    share of w wrong ones and ``needed`` of them to a set, a set is right with probability (1 - w)^needed or more
    where there are many to choose from; a few wrong shares are passed over, many are not.

    Args:
        shares: by number; those that are not ``usable`` are left out.
        needed: how many give the secret.
        right: whether it is the one that was committed to.

    Returns:
        16 bytes, or None where no set was found.
    """
    known = {x: share for x, share in shares.items() if usable(share)}
    if len(known) < needed:
        return None
    for chosen in _choices(list(known), needed):
        secret = combine({x: known[x] for x in chosen})
        if secret is not None and right(secret):
            return secret
    return None


def _choices(numbers: list[int], needed: int) -> Iterator[list[int]]:
    yield numbers[:needed]
    if len(numbers) > needed:
        random = secrets.SystemRandom()
        yield from (random.sample(numbers, needed) for _ in range(_MOST_TRIES - 1))


def _value(higher: list[int], lowest: int, x: int) -> int:
    value = 0
    for coefficient in higher:
        value = (value + coefficient) * x % _PRIME
    return (value + lowest) % _PRIME


BOX_BYTES = 2 * SHARE_BYTES + 16
_NONCE = bytes(12)  # the key is used for one message


def close_box(
    pair: KeyPair, peer_key: bytes, shares: tuple[bytes, bytes], *, session: bytes, parties: bytes
) -> bytes:
    """Encrypt a share of each secret, 50 bytes.

    Args:
        pair: the sender's pair for shares. Secret.
        peer_key: the receiver's public one.
        shares: of the self-mask's seed and of the mask key's seed, 17 bytes each. Secret.
        session: 32 bytes that no other session has.
        parties: identities of sender and receiver, in this order.

    Raises:
        RefusedError: the receiver's key is of low order.
    """
    cipher = _cipher(pair, peer_key, session, parties)
    return cipher.encrypt(_NONCE, b"".join(shares), session + parties)


def open_box(
    pair: KeyPair, peer_key: bytes, box: bytes, *, session: bytes, parties: bytes
) -> tuple[bytes, bytes]:
    """The shares in a box; ``NO_SHARE`` twice where it was not made by this sender for this receiver and session.

    Args:
        pair: the receiver's pair for shares. Secret.
        peer_key: the sender's public one.
        box: from a client that need not be honest, by way of a server that need not be either.
        session: 32 bytes that no other session has.
        parties: identities of sender and receiver, in this order.

    Raises:
        RefusedError: the sender's key is of low order.
    """
    try:
        content = _cipher(pair, peer_key, session, parties).decrypt(_NONCE, box, session + parties)
    except InvalidTag:
        return NO_SHARE, NO_SHARE
    return content[:SHARE_BYTES], content[SHARE_BYTES:]


def _cipher(pair: KeyPair, peer_key: bytes, session: bytes, parties: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(
        derive_key(pair.shared(peer_key), use=b"shares", session=session, parties=parties)
    )
