"""Keys of one session: two X25519 pairs a client, one for encrypting shares, one for masks.

They are two because the private half of the second may be given away, share by share, when its owner drops out; the
first never is (Bonawitz et al. 2017, section 6). The second follows from a seed of 16 bytes, so that the seed can
be shared and whoever puts it together can hold it against the public half.
"""

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedboard.common.protocols.secure_sum.masking.mask_stream import derive_key
from fedboard.common.wire.refusals import Refusal, RefusedError

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
