"""Signed questions: a device answers the server whose key it has pinned, and nobody else.

Whatever a server asks, a round or a step of a session, travels in this envelope: the magic ``FBSIGN01``, the last
second at which it may be answered (uint64, little-endian, since 1970 UTC), an Ed25519 signature of 64 bytes, then
the message. Signed are the name of the format, that second, the SHA-256 of the message and, where a board travels
beside it, the SHA-256 of the board's bytes. So the signature covers run, round, protocol, form, board and
certificate, the key that replies are sealed to, and the deadline; it is verified before anything of the message is
read.

The key is for questions alone. Its signatures pass for nothing else, and the one that signs boards is another.
"""

import hashlib
import time
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedboard.common.boards.ed25519_keys import key_id, read_private, read_public, write_pair
from fedboard.common.boards.validity import CLOCK_SECONDS, Clock
from fedboard.common.messages.refusals import Refusal, RefusedError

PRIVATE_NAME = "question-signing.key"
PUBLIC_NAME = "question-signing.pub"
LONGEST_SECONDS = 1_000_000 + 3600
"""A question that may be answered for longer is not taken, whoever signed it."""

_MAGIC = b"FBSIGN01"
_DOMAIN = b"fedboard-question-1\0"
_SIGNATURE_BYTES = 64
_SIGNED_FROM = len(_MAGIC) + 8
ENVELOPE_BYTES = _SIGNED_FROM + _SIGNATURE_BYTES
"""What a message is longer by."""


class QuestionKey:
    """The private key that a server signs its questions with.

    Whoever steals it can ask in the server's name, with a reply key of his own, where he can also get a message to
    the devices, which takes the server's TLS key or its machine. Each device's policy, limit and ledger bind him as
    they bind the server; he cannot publish boards, so with ``published_only`` he is answered about published ones
    alone.
    """

    def __init__(self, key: Ed25519PrivateKey | None = None) -> None:
        """Use a key, or make a fresh one."""
        self._key = Ed25519PrivateKey.generate() if key is None else key
        self.public = PinnedServer(self._key.public_key())

    @classmethod
    def read(cls, path: Path) -> "QuestionKey":
        """Read a PEM file that only its owner can read.

        Raises:
            InputError: no Ed25519 private key there, or others can read it.
        """
        return cls(read_private(path, signed="questions"))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``question-signing.key``, readable by its owner alone, and ``question-signing.pub``.

        Returns:
            The two paths, the private one first.

        Raises:
            InputError: one of them is there already; a key is never overwritten.
        """
        private, public = folder / PRIVATE_NAME, folder / PUBLIC_NAME
        write_pair(self._key, private=private, public=public)
        return private, public

    def sign(
        self, message: bytes, *, seconds: float, beside: bytes | None = None, clock: Clock = time.time
    ) -> bytes:
        """A question as it travels.

        Args:
            message: a question or a step.
            seconds: how long it may be answered, by this clock; the difference between clocks is allowed for.
            beside: the board that travels beside a step.
            clock: of this machine.
        """
        last = int(clock() + min(seconds, LONGEST_SECONDS - 2 * CLOCK_SECONDS - 1)) + CLOCK_SECONDS
        expiry = last.to_bytes(8, "little")
        return _MAGIC + expiry + self._key.sign(_signed(expiry, message, beside)) + message


class PinnedServer:
    """The public key of the one server whose questions a device answers, known to it beforehand."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        """Use a key."""
        self._key = key

    @property
    def id(self) -> str:
        """A short public name of the key."""
        return key_id(self._key)

    @classmethod
    def read(cls, path: Path) -> "PinnedServer":
        """Read a PEM file (``question-signing.pub``).

        Raises:
            InputError: no Ed25519 public key there.
        """
        return cls(read_public(path, signed="questions"))

    @classmethod
    def from_hex(cls, text: str) -> "PinnedServer":
        """The key that ``hex`` gave."""
        return cls(Ed25519PublicKey.from_public_bytes(bytes.fromhex(text)))

    @property
    def hex(self) -> str:
        """Its 32 bytes, hexadecimal."""
        return self._key.public_bytes_raw().hex()

    def open(self, signed: bytes, *, beside: bytes | None = None, clock: Clock = time.time) -> memoryview:
        """The message, if this server has signed it and it may still be answered. Nothing of it is read before.

        Args:
            signed: from anybody.
            beside: the board that came with it.
            clock: of this machine.

        Raises:
            RefusedError: ``unsigned``, ``bad-signature`` or ``expired``.
        """
        message = self.once_signed(signed, beside=beside)
        expiry = signed[len(_MAGIC) : _SIGNED_FROM]
        if not 0 <= int.from_bytes(expiry, "little") - clock() <= LONGEST_SECONDS:
            raise RefusedError(Refusal.EXPIRED)
        return message

    def once_signed(self, signed: bytes, *, beside: bytes | None = None) -> memoryview:
        """The message, if this server has ever signed it, for whatever time.

        Args:
            signed: from anybody.
            beside: the board that came with it.

        Raises:
            RefusedError: ``unsigned`` or ``bad-signature``.
        """
        content = memoryview(signed)
        if len(content) < ENVELOPE_BYTES or content[: len(_MAGIC)] != _MAGIC:
            raise RefusedError(Refusal.UNSIGNED)
        expiry, message = bytes(content[len(_MAGIC) : _SIGNED_FROM]), content[ENVELOPE_BYTES:]
        try:
            self._key.verify(bytes(content[_SIGNED_FROM:ENVELOPE_BYTES]), _signed(expiry, message, beside))
        except InvalidSignature:
            raise RefusedError(Refusal.BAD_SIGNATURE) from None
        return message


def _signed(expiry: bytes, message: bytes | memoryview, beside: bytes | None) -> bytes:
    """What the signature is over: of one length, so that no part can pass for another."""
    board = bytes(32) if beside is None else hashlib.sha256(beside).digest()
    return _DOMAIN + expiry + hashlib.sha256(message).digest() + bytes([beside is not None]) + board
