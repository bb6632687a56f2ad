"""A device's request to join, and the server's answer."""

import base64
import binascii
import hashlib
from enum import StrEnum
from typing import Final, Literal

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from fedboard.common.errors import FedboardError
from fedboard.common.keys.ed25519_keys import has_signed
from fedboard.common.keys.roster import KEY_BYTES, IdentityKey
from fedboard.common.wire.enrolment.invitation import SECRET_BYTES

LARGEST_REQUEST = 1 << 13
LARGEST_ANSWER = 1 << 13
_DOMAIN: Final = b"fedboard-join-1\0"
_HASH: Final = hashes.SHA256()


class JoinRefusal(StrEnum):
    """Why a device is not admitted; all that is said of it."""

    MALFORMED = "malformed"
    """No request to join, or one of another version."""
    UNKNOWN = "unknown-invitation"
    """No such invitation, or one that was withdrawn."""
    EXPIRED = "expired-invitation"
    USED = "used-invitation"
    """Another key has joined with it."""
    FULL = "full"
    """The fleet has as many devices, or users, as its sums are sized for."""
    REMOVED = "removed-key"
    """This key was a member's that was removed; no key comes back."""
    TAKEN = "taken-key"
    """This key is a member's already."""
    UNPROVEN = "unproven-key"
    """The request is not signed by the key that it names."""
    TOO_OFTEN = "too-often"
    """So many requests came from this address, or from all, that this one was not looked at."""
    CLOSED = "closed"
    """This fleet takes no devices by invitation."""


class JoinError(FedboardError):
    """A device is not admitted, for a reason that is a code and nothing more."""

    def __init__(self, code: JoinRefusal) -> None:
        """Say the code alone."""
        super().__init__(code.value)
        self.code = code


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sent over TLS to the server that the invitation names, and to nobody else."""

    secret: str
    """Of the invitation, base64."""
    public_key: str
    """Of the device, a line of OpenSSH; its private half stays there."""
    signature: str
    """By that key, over the secret, the line and the introduction; base64."""
    version: str = ""
    """Of fedboard on the device."""
    identity: str
    """Key by which other members may know it, once an authority vouches for it (``keys.roster``); hexadecimal."""
    identity_signature: str
    """By that key, over the same; base64."""

    @staticmethod
    def made(
        key: ec.EllipticCurvePrivateKey,
        line: str,
        identity: IdentityKey,
        *,
        secret: bytes,
        introduction: bytes,
        version: str,
    ) -> "JoinRequest":
        """By a device.

        Args:
            key: the device's, private.
            line: its public half.
            identity: the device's, private.
            secret: of the invitation.
            introduction: its SHA-256.
            version: of fedboard.
        """
        statement = _signed(secret, line, identity.public, introduction)
        return JoinRequest(
            secret=_text(secret),
            public_key=line,
            signature=_text(key.sign(statement, ec.ECDSA(_HASH))),
            version=version,
            identity=identity.public.hex(),
            identity_signature=_text(identity.sign(statement)),
        )

    def proven(self, *, introduction: bytes) -> bytes:
        """The secret, where whoever asks has the private halves of the keys that he names.

        Args:
            introduction: SHA-256 of what this server hands over.

        Raises:
            JoinError: ``malformed`` or ``unproven-key``.
        """
        try:
            secret = base64.b64decode(self.secret, validate=True)
            signature = base64.b64decode(self.signature, validate=True)
            identity = bytes.fromhex(self.identity)
            of_identity = base64.b64decode(self.identity_signature, validate=True)
            key = load_ssh_public_key(self.public_key.encode("ascii"))
        except (binascii.Error, ValueError, UnsupportedAlgorithm, NotImplementedError):
            raise JoinError(JoinRefusal.MALFORMED) from None
        right = len(secret) == SECRET_BYTES and len(identity) == KEY_BYTES and self.identity == identity.hex()
        if not right or not isinstance(key, ec.EllipticCurvePublicKey):
            raise JoinError(JoinRefusal.MALFORMED)
        statement = _signed(secret, self.public_key, identity, introduction)
        if not has_signed(identity, of_identity, statement):
            raise JoinError(JoinRefusal.UNPROVEN)
        try:
            key.verify(signature, statement, ec.ECDSA(_HASH))
        except InvalidSignature:
            raise JoinError(JoinRefusal.UNPROVEN) from None
        return secret

    @staticmethod
    def read(content: bytes) -> "JoinRequest":
        """From anybody.

        Raises:
            JoinError: ``malformed``.
        """
        try:
            return msgspec.json.decode(content, type=JoinRequest)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise JoinError(JoinRefusal.MALFORMED) from None


class JoinAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says."""

    name: str | None = None
    """By which the operator knows the device; None where it is not admitted."""
    max_users: int = 0
    """How many users' answers are taken from it."""
    refused: str | None = None
    """A code of ``JoinRefusal``."""
    carrier: Literal["flower", "direct"] = "flower"
    """How the device is to fetch questions."""


def _signed(secret: bytes, line: str, identity: bytes, introduction: bytes) -> bytes:
    """Of one length for each part, so that none can pass for another."""
    parts = (secret, line.encode(), identity)
    return _DOMAIN + introduction + b"".join(hashlib.sha256(part).digest() for part in parts)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
