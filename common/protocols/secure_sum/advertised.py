"""What a client keeps secret in one session, what it tells about it, and its masks.

One mask is its own; the mask with a neighbour is the same for both, added by one and subtracted by the other, so
that it cancels.
"""

import hashlib
import os
from dataclasses import dataclass

import msgspec

from fedboard.common.protocols.secure_sum.masking import (
    KEY_BYTES,
    PUBLIC_BYTES,
    SEED_BYTES,
    KeyPair,
    Mask,
    derive_key,
    require_usable,
)

ADVERTISED_BYTES = 2 * PUBLIC_BYTES + KEY_BYTES


@dataclass(frozen=True, slots=True)
class Advertised:
    """What everybody who needs it is told of a client. Public."""

    content: bytes
    """96 bytes: public key for masks, public key for shares, commitment to the seed of the self-mask."""

    @property
    def mask_key(self) -> bytes:
        """Public half of the pair for masks."""
        return self.content[:PUBLIC_BYTES]

    @property
    def share_key(self) -> bytes:
        """Public half of the pair for encrypting shares."""
        return self.content[PUBLIC_BYTES : 2 * PUBLIC_BYTES]

    @property
    def commitment(self) -> bytes:
        """``commitment_to`` the seed of the self-mask."""
        return self.content[2 * PUBLIC_BYTES :]

    @property
    def identity(self) -> bytes:
        """What the client is called in this session, 32 bytes; only whoever has the secrets can act under it."""
        return hashlib.sha256(self.content).digest()

    def require_usable(self) -> None:
        """Refuse keys that nobody can agree on a secret with.

        Raises:
            RefusedError: a key is a point of low order.
        """
        require_usable(self.mask_key)
        require_usable(self.share_key)


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """A client's secrets of one session; fresh from the operating system for each."""

    self_seed: bytes
    """16 bytes: its self-mask follows from it."""
    mask_seed: bytes
    """16 bytes: its private key for masks follows from it."""
    share_private: bytes
    """32 bytes: private key for encrypting shares; it is never shared."""

    def __repr__(self) -> str:
        """Nothing of it."""
        return "Secrets()"

    @staticmethod
    def fresh() -> "Secrets":
        """Secrets that nobody else has."""
        return Secrets(
            self_seed=os.urandom(SEED_BYTES),
            mask_seed=os.urandom(SEED_BYTES),
            share_private=os.urandom(KEY_BYTES),
        )

    def mask_pair(self, session: bytes) -> KeyPair:
        """The pair for masks."""
        return KeyPair.from_seed(self.mask_seed, session=session)

    def share_pair(self) -> KeyPair:
        """The pair for encrypting shares."""
        return KeyPair.of(self.share_private)

    def advertised(self, session: bytes) -> Advertised:
        """What is told of them."""
        keys = self.mask_pair(session).public + self.share_pair().public
        return Advertised(keys + commitment_to(self.self_seed, session=session))


def commitment_to(self_seed: bytes, *, session: bytes) -> bytes:
    """32 bytes that hold the seed's owner to it and say nothing about the mask that follows from it.

    Args:
        self_seed: 16 bytes. Secret.
        session: 32 bytes that no other session has.
    """
    return derive_key(self_seed, use=b"commitment", session=session)


def self_mask(self_seed: bytes, *, session: bytes) -> Mask:
    """A client's own mask, which it adds.

    Args:
        self_seed: 16 bytes. Secret.
        session: 32 bytes that no other session has.
    """
    return Mask(key=derive_key(self_seed, use=b"self-mask", session=session), added=True)


def pair_mask(pair: KeyPair, own: bytes, peer: Advertised, *, session: bytes) -> Mask:
    """The mask with one neighbour: the same for both, added by the smaller identity and subtracted by the other.

    Args:
        pair: the client's own pair for masks. Secret.
        own: its identity, 32 bytes.
        peer: what the neighbour advertised.
        session: 32 bytes that no other session has.

    Raises:
        RefusedError: the neighbour's key is of low order.
    """
    parties = b"".join(sorted((own, peer.identity)))
    key = derive_key(pair.shared(peer.mask_key), use=b"pair-mask", session=session, parties=parties)
    return Mask(key=key, added=own < peer.identity)
