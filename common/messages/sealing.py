"""Sealed replies: only the process that asked can read them, and only while it waits for them.

On its way a reply passes a proxy and lies in Flower's database, under a name that is a hash of its content. It is
therefore encrypted to a key that the server makes for each round and never writes down: whatever stays on a disk
cannot be opened afterwards, and two replies of the same content have nothing in common, so nobody can test a guess.

HPKE (RFC 9180) in base mode, one message a context, with X-Wing (X25519 and ML-KEM-768), HKDF-SHA256 and
ChaCha20-Poly1305; it also holds against somebody who keeps what they see today and has a quantum computer one day.
Its ``info`` is the format's name and what the reply is about. A key and a sealed reply each begin by saying their
suite, of which there is one:

* a key: the suite (1 byte, 2), then 1184 bytes of ML-KEM and 32 of X25519;
* a sealed reply: ``FBSEAL02``, the suite, then HPKE's ``enc`` (1120 bytes) and its ciphertext.
"""

import re
from dataclasses import dataclass
from functools import cache

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

from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError

_X25519_BYTES = 32
_MLKEM_BYTES = 1184
_MAGIC = b"FBSEAL02"
_ANY_VERSION = re.compile(rb"FBSEAL\d\d")
_PREFIX = len(_MAGIC) + 1
_INFO = b"fedboard reply 2\0"

_SUITE = b"\2"
KEY_BYTES = len(_SUITE) + _MLKEM_BYTES + _X25519_BYTES
"""Of a public key."""


@cache
def _hpke() -> Suite:
    """HPKE's suite; made when it is first needed, since not every build of ``cryptography`` has ML-KEM."""
    return Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class ReplyKey:
    """The secret half, in the memory of whoever asks; it is never stored."""

    def __init__(self) -> None:
        """Make a fresh one.

        Raises:
            InputError: this machine's ``cryptography`` has no ML-KEM.
        """
        try:
            _hpke()
            self._private, self._lattice = X25519PrivateKey.generate(), MLKEM768PrivateKey.generate()
        except UnsupportedAlgorithm:
            raise InputError(
                "answers are sealed with ML-KEM, and this build of the package cryptography has none; install its "
                "wheel: pip install --force-reinstall --only-binary :all: cryptography"
            ) from None
        self._opens = MLKEM768X25519PrivateKey(self._lattice, self._private)
        halves = (half.public_key().public_bytes_raw() for half in (self._lattice, self._private))
        self._public = _SUITE + b"".join(halves)

    @property
    def public(self) -> bytes:
        """The half that goes with the question; ``KEY_BYTES`` bytes."""
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
        if not sealed.startswith(_MAGIC + _SUITE):
            raise RefusedError(Refusal.MALFORMED)
        try:
            return _hpke().decrypt(memoryview(sealed)[_PREFIX:], self._opens, info=_INFO + about)
        except (InvalidTag, ValueError):
            raise RefusedError(Refusal.MALFORMED) from None


@dataclass(frozen=True, slots=True, repr=False)
class Envelope:
    """What replies to one question are sealed into; each is sealed anew."""

    _key: MLKEM768X25519PublicKey
    _about: bytes

    @staticmethod
    def to(key: bytes, *, about: bytes) -> "Envelope":
        """An envelope that only the owner of the key can open.

        Args:
            key: from a server that need not be honest.
            about: what is answered; the reply cannot be passed off as one to anything else.

        Raises:
            RefusedError: no such key; ``wrong-version`` where it is of another suite, or ML-KEM is missing here.
        """
        if key[:1] != _SUITE:
            raise RefusedError(Refusal.WRONG_VERSION if key[:1] > _SUITE else Refusal.MALFORMED)
        if len(key) != KEY_BYTES:
            raise RefusedError(Refusal.MALFORMED)
        return Envelope(_public_key(key[1:]), about)

    def seal(self, reply: bytes) -> bytes:
        """The reply, sealed."""
        return _MAGIC + _SUITE + _hpke().encrypt(reply, self._key, info=_INFO + self._about)


def is_sealed(content: bytes) -> bool:
    """Whether this looks like a sealed reply, of this version or of another."""
    return _ANY_VERSION.match(content) is not None


def _public_key(content: bytes) -> MLKEM768X25519PublicKey:
    """The key of these bytes; no point of low order, with which every secret would be the same."""
    try:
        _hpke()
        point = X25519PublicKey.from_public_bytes(content[-_X25519_BYTES:])
        X25519PrivateKey.generate().exchange(point)
        return MLKEM768X25519PublicKey(MLKEM768PublicKey.from_public_bytes(content[:_MLKEM_BYTES]), point)
    except ValueError:
        raise RefusedError(Refusal.MALFORMED) from None
    except UnsupportedAlgorithm:
        raise RefusedError(Refusal.WRONG_VERSION) from None
