"""Sealed replies: only the process that asked can read them, and only while it waits for them.

On its way a reply passes a proxy and lies in Flower's database, under a name that is a hash of its content. It is
therefore encrypted to a key that the server makes for each round and never writes down: whatever stays on a disk
cannot be opened afterwards, and two replies of the same content have nothing in common, so nobody can test a guess.

HPKE (RFC 9180) in base mode, one message a context, with HKDF-SHA256 and ChaCha20-Poly1305. Its ``info`` is the
format's name and what the reply is about. Two suites: X25519, and X25519 with ML-KEM-768 (X-Wing), which also holds
against somebody who keeps what he sees today and has a quantum computer one day. The asker chooses: the second
where its library offers it. A key and a sealed reply each begin by saying their suite:

* a key: the suite (1 byte), then 32 bytes, or 1184 of ML-KEM and 32 of X25519;
* a sealed reply: ``FBSEAL02``, the suite (1 byte), then HPKE's ``enc`` (32 or 1120 bytes) and its ciphertext.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from fedboard.common.messages.refusals import Refusal, RefusedError

_X25519_BYTES = 32
_MLKEM_BYTES = 1184
_MAGIC = b"FBSEAL02"
_ANY_VERSION = re.compile(rb"FBSEAL\d\d")
_PREFIX = len(_MAGIC) + 1
_INFO = b"fedboard reply 2\0"

_PublicKey = X25519PublicKey | MLKEM768X25519PublicKey


class KeySuite(IntEnum):
    """How a reply is sealed; its number on the wire."""

    X25519 = 1
    """DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305."""
    HYBRID = 2
    """X-Wing (X25519 and ML-KEM-768), HKDF-SHA256, ChaCha20-Poly1305."""

    @property
    def key_bytes(self) -> int:
        """Of a public key, with the byte that says its suite."""
        return 1 + _X25519_BYTES + (_MLKEM_BYTES if self is KeySuite.HYBRID else 0)

    @property
    def hpke(self) -> Suite:
        """The suite of RFC 9180."""
        kem = KEM.MLKEM768_X25519 if self is KeySuite.HYBRID else KEM.X25519
        return Suite(kem, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


KEY_BYTES = frozenset(suite.key_bytes for suite in KeySuite)
"""Of a public key, whatever its suite."""


def best_suite(generate: Callable[[], object] = MLKEM768PrivateKey.generate) -> KeySuite:
    """The strongest that this machine's library offers.

    Args:
        generate: makes an ML-KEM key, where there is such a thing.
    """
    try:
        generate()
        _ = KeySuite.HYBRID.hpke
    except UnsupportedAlgorithm:
        return KeySuite.X25519
    return KeySuite.HYBRID


class ReplyKey:
    """The secret half, in the memory of whoever asks; it is never stored."""

    def __init__(self, suite: KeySuite | None = None) -> None:
        """Make a fresh one; of the strongest suite unless one is named."""
        self._suite = best_suite() if suite is None else suite
        self._private = X25519PrivateKey.generate()
        self._opens: X25519PrivateKey | MLKEM768X25519PrivateKey = self._private
        self._lattice = MLKEM768PrivateKey.generate() if self._suite is KeySuite.HYBRID else None
        own = self._private.public_key().public_bytes_raw()
        if self._lattice is not None:
            self._opens = MLKEM768X25519PrivateKey(self._lattice, self._private)
            own = self._lattice.public_key().public_bytes_raw() + own
        self._public = bytes([self._suite]) + own

    @property
    def public(self) -> bytes:
        """The half that goes with the question; 33 or 1217 bytes."""
        return self._public

    def open(self, sealed: bytes, *, about: bytes) -> bytes:
        """The reply.

        Args:
            sealed: from a client that need not be honest.
            about: what was asked, as in ``Envelope.to``.

        Raises:
            RefusedError: it is not sealed to this key, not about this question, or was changed; ``wrong-version``
                where it is sealed as another version of this package seals.
        """
        if is_sealed(sealed) and not sealed.startswith(_MAGIC):
            raise RefusedError(Refusal.WRONG_VERSION)
        if not is_sealed(sealed) or len(sealed) < _PREFIX or sealed[len(_MAGIC)] != self._suite:
            raise RefusedError(Refusal.MALFORMED)
        try:
            return self._suite.hpke.decrypt(memoryview(sealed)[_PREFIX:], self._opens, info=_INFO + about)
        except (InvalidTag, ValueError):
            raise RefusedError(Refusal.MALFORMED) from None


@dataclass(frozen=True, slots=True, repr=False)
class Envelope:
    """What replies to one question are sealed into; each is sealed anew."""

    _suite: KeySuite
    _key: _PublicKey
    _about: bytes

    @staticmethod
    def to(key: bytes, *, about: bytes) -> "Envelope":
        """An envelope that only the owner of the key can open.

        Args:
            key: from a server that need not be honest.
            about: what is answered; the reply cannot be passed off as one to anything else.

        Raises:
            RefusedError: no such key; ``wrong-version`` where it is of a suite that this machine does not have.
        """
        if not key or key[0] == 0:
            raise RefusedError(Refusal.MALFORMED)
        if key[0] not in set(KeySuite):
            raise RefusedError(Refusal.WRONG_VERSION)
        suite = KeySuite(key[0])
        if len(key) != suite.key_bytes:
            raise RefusedError(Refusal.MALFORMED)
        return Envelope(suite, _public_key(suite, key[1:]), about)

    def seal(self, reply: bytes) -> bytes:
        """The reply, sealed."""
        content = self._suite.hpke.encrypt(reply, self._key, info=_INFO + self._about)
        return _MAGIC + bytes([self._suite]) + content


def is_sealed(content: bytes) -> bool:
    """Whether this looks like a sealed reply, of this version or of another."""
    return _ANY_VERSION.match(content) is not None


def _public_key(suite: KeySuite, content: bytes) -> _PublicKey:
    """The key of these bytes; no point of low order, with which every secret would be the same."""
    try:
        point = X25519PublicKey.from_public_bytes(content[-_X25519_BYTES:])
        X25519PrivateKey.generate().exchange(point)
        if suite is KeySuite.X25519:
            return point
        return MLKEM768X25519PublicKey(MLKEM768PublicKey.from_public_bytes(content[:_MLKEM_BYTES]), point)
    except ValueError:
        raise RefusedError(Refusal.MALFORMED) from None
    except UnsupportedAlgorithm:
        raise RefusedError(Refusal.WRONG_VERSION) from None
