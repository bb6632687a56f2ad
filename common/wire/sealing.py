"""Sealed replies: only the process that asked can read them, and only while it waits for them.

On its way a reply passes a proxy and lies in Flower's database, under a name that is a hash of its content. It is
therefore encrypted to a key that the server makes for each round and never writes down: whatever stays on a disk
cannot be opened afterwards, and two replies of the same content have nothing in common, so nobody can test a guess.

X25519 with a fresh key for each reply, HKDF-SHA256, ChaCha20-Poly1305 under a key that is used once.
"""

from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedboard.common.wire.refusals import Refusal, RefusedError

KEY_BYTES = 32
_MAGIC = b"FBSEAL01"
_PREFIX = len(_MAGIC) + KEY_BYTES
_NONCE = bytes(12)  # the key is used for one message


class ReplyKey:
    """The secret half, in the memory of whoever asks; it is never stored."""

    def __init__(self) -> None:
        """Make a fresh one."""
        self._private = X25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        """The half that goes with the question, 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def open(self, sealed: bytes, *, about: bytes) -> bytes:
        """The reply.

        Args:
            sealed: from a client that need not be honest.
            about: what was asked, as in ``Envelope.to``.

        Raises:
            RefusedError: it is not sealed to this key, not about this question, or was changed.
        """
        if not is_sealed(sealed) or len(sealed) < _PREFIX:
            raise RefusedError(Refusal.MALFORMED)
        sender = sealed[len(_MAGIC) : _PREFIX]
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(sender))
            cipher = _cipher(shared, sender, self.public)
            return cipher.decrypt(_NONCE, memoryview(sealed)[_PREFIX:], about)
        except (InvalidTag, ValueError):
            raise RefusedError(Refusal.MALFORMED) from None


@dataclass(frozen=True, slots=True, repr=False)
class Envelope:
    """What one reply is sealed into; for one reply only."""

    _sender: bytes
    _cipher: ChaCha20Poly1305
    _about: bytes

    @staticmethod
    def to(key: bytes, *, about: bytes) -> "Envelope":
        """An envelope that only the owner of the key can open.

        Args:
            key: 32 bytes, from a server that need not be honest.
            about: what is answered; the reply cannot be passed off as one to anything else.

        Raises:
            RefusedError: no such key.
        """
        private = X25519PrivateKey.generate()
        sender = private.public_key().public_bytes_raw()
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError:  # too short, or a point that makes every secret the same
            raise RefusedError(Refusal.MALFORMED) from None
        return Envelope(sender, _cipher(shared, sender, key), about)

    def seal(self, reply: bytes) -> bytes:
        """The reply, sealed."""
        return _MAGIC + self._sender + self._cipher.encrypt(_NONCE, reply, self._about)


def is_sealed(content: bytes) -> bool:
    """Whether this looks like a sealed reply."""
    return content[: len(_MAGIC)] == _MAGIC


def _cipher(shared: bytes, sender: bytes, receiver: bytes) -> ChaCha20Poly1305:
    info = b"fedboard reply 1" + sender + receiver
    return ChaCha20Poly1305(HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared))
