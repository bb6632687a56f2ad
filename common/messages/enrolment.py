"""How a device joins a fleet: what an invitation names, what the server hands over, what a device asks.

What a server hands to a device that joins: its authority, the keys that it signs with, and what it trains.

All of it is public. The device takes it from anybody, and believes it because its SHA-256 is in the invitation; so
the server that answers must be the one whose operator made the invitation, with the keys of that moment.

Invitations: the address of a fleet, what its introduction must hash to, and a secret that admits one device,
once.

A token is ``fb1-`` and the base64url text of 67 bytes: the SHA-256 of the server's introduction (its authority and
the keys that sign, see ``introduction``), 32 random bytes that are the secret, and the first three bytes of the
SHA-256 of both, which tell a token that was not copied whole. Whoever has the token knows by which keys to know
the server, so nothing is trusted because it came first; the server keeps the SHA-256 of the secret alone.

A device's request to join, as both sides sign and check it.
"""

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

import msgspec
from google.protobuf.message import DecodeError

from fedboard.common.boards.ed25519_keys import has_signed, public_pem
from fedboard.common.boards.roots import Root, RootError
from fedboard.common.boards.roster import KEY_BYTES, IdentityKey
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.messages.addresses import Address, parse_address
from fedboard.common.messages.devices import DeviceKey
from fedboard.common.messages.devices_pb2 import JoinRequest
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency

LARGEST_INTRODUCTION = 1 << 18
_INTRODUCED = b"fedboard-introduction-1\0"


class Introduction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one fleet. Public."""

    format: Literal[1] = 1
    run: str
    """Name of the training."""
    task: str
    protocol: str
    """Name of the aggregation protocol."""
    epsilon: float
    """That the training asks of each user in all; what a device gives is its owner's to say."""
    delta: float
    adjacency: Adjacency
    authority: str
    """PEM text: who vouches for the server's certificate."""
    question_key: str
    """Who may ask: an Ed25519 key, hexadecimal."""
    board_key: str | None = None
    """Who signs boards, where the same address serves them: an Ed25519 key, hexadecimal."""
    root: str | None = None
    """The newest root document, which names those keys and later ones; None where they are pinned themselves."""

    def to_bytes(self) -> bytes:
        """As it is handed over; the same for the same content."""
        return msgspec.json.encode(self, order="sorted")

    @property
    def budget(self) -> Budget:
        """What the training asks of each user."""
        return Budget(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency)

    @staticmethod
    def open(content: bytes, *, digest: bytes) -> "Introduction":
        """Read what a server has sent, if it is the one that the invitation names; nothing of it is read before.

        Args:
            content: from anybody.
            digest: from the invitation.

        Raises:
            InputError: another one, or not one of this format.
        """
        if digest_of_introduction(content) != digest:
            raise InputError(
                "the server that answers does not have the keys that this invitation names: it is another one, "
                "somebody is in between, or its keys were changed since; ask for a new invitation, and say so"
            )
        try:
            found = msgspec.json.decode(content, type=Introduction)
            found.budget  # noqa: B018 (checks the ranges)
            for key in (found.question_key, found.board_key):
                if key is not None:
                    public_pem(bytes.fromhex(key))
            if found.root is not None:
                Root.from_bytes(found.root.encode())
        except (msgspec.DecodeError, ValueError, RecursionError, RootError) as error:
            raise InputError(
                f"the server's introduction cannot be read ({error}); install the version of fedboard that it has"
            ) from error
        return found


def digest_of_introduction(content: bytes) -> bytes:
    """What an invitation names it by."""
    return hashlib.sha256(_INTRODUCED + content).digest()


SECRET_BYTES = 32
_DIGEST_BYTES, _CHECK_BYTES = 32, 3
_PREFIX, _SCHEME = "fb1-", "https://"
_SECRET_DOMAIN = b"fedboard-invitation-1\0"
_AS_PRINTED = "it is one word of 94 characters that begins with fb1-, as `fedboard fleet invite` prints it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """What a device is given to join with. Secret: whoever has it joins in its place."""

    address: Address
    introduction: bytes
    """SHA-256 of the introduction that the server must hand over."""
    secret: bytes = field(repr=False)

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"{_SCHEME}{self.address.text}"

    @property
    def token(self) -> str:
        """The rest of it, as one word."""
        content = self.introduction + self.secret
        whole = content + hashlib.sha256(content).digest()[:_CHECK_BYTES]
        return _PREFIX + base64.urlsafe_b64encode(whole).rstrip(b"=").decode("ascii")

    @property
    def text(self) -> str:
        """Of a file with both: one line each."""
        return f"{self.url}\n{self.token}\n"

    @staticmethod
    def parse(url: str, token: str) -> "Invitation":
        """Read both parts as a person copied them.

        Raises:
            InputError: no address, or a token that is none or not whole. The message does not quote it.
        """
        if not url.startswith(_SCHEME):
            raise InputError(f"the URL of an invitation is {_SCHEME}HOST:PORT, got {url!r}")
        address = parse_address(url.removeprefix(_SCHEME).removesuffix("/"), name="the URL of an invitation")
        content = _content(token.strip())
        return Invitation(
            address=address, introduction=content[:_DIGEST_BYTES], secret=content[_DIGEST_BYTES:]
        )

    @staticmethod
    def parse_text(text: str, *, source: str) -> "Invitation":
        """Read the text of a file.

        Args:
            text: as ``text`` gives it.
            source: where it is from, for the message.

        Raises:
            InputError: it is no such file.
        """
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if len(lines) != 2:
            raise InputError(f"{source}: an invitation has two lines, the URL and the token")
        return Invitation.parse(*lines)


def _content(token: str) -> bytes:
    body = token.removeprefix(_PREFIX)
    try:
        whole = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        whole = b""
    content, check = whole[:-_CHECK_BYTES], whole[-_CHECK_BYTES:]
    right = len(content) == _DIGEST_BYTES + SECRET_BYTES and token.startswith(_PREFIX)
    if not right or hashlib.sha256(content).digest()[:_CHECK_BYTES] != check:
        raise InputError(f"this token is not whole, or is none; {_AS_PRINTED}")
    return content


def fresh_secret() -> bytes:
    """Of a new invitation, from the operating system's generator."""
    return os.urandom(SECRET_BYTES)


def digest_of_secret(secret: bytes) -> str:
    """What the server keeps of a secret: 256 random bits need no slow hash."""
    return hashlib.sha256(_SECRET_DOMAIN + secret).hexdigest()


_JOINED: Final = b"fedboard-join-2\0"
_LONGEST_VERSION = 32


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
    """The request is not signed by the keys that it names."""
    TOO_OFTEN = "too-often"
    """So many requests came from this address, or from all, that this one was not looked at."""


class JoinError(FedboardError):
    """A device is not admitted, for a reason that is a code and nothing more."""

    def __init__(self, code: JoinRefusal) -> None:
        """Say the code alone."""
        super().__init__(code.value)
        self.code = code


def ask_to_join(
    key: DeviceKey, identity: IdentityKey, *, secret: bytes, introduction: bytes, version: str
) -> JoinRequest:
    """A device's request.

    Args:
        key: by which the server is to know it.
        identity: by which other members may.
        secret: of the invitation.
        introduction: its SHA-256.
        version: of fedboard.
    """
    statement = _signed(secret, key.public, identity.public, introduction)
    return JoinRequest(
        secret=secret,
        key=key.public,
        signature=key.sign(statement),
        identity=identity.public,
        identity_signature=identity.sign(statement),
        version=version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Who asks to join, and has the private halves of the keys that are named."""

    secret: bytes = field(repr=False)
    key: str
    """By which the server is to know the device, 64 hexadecimal digits."""
    identity: str
    """By which other members may, 64 hexadecimal digits."""
    version: str
    """Of fedboard there, as it says; empty where it says nothing sane."""

    @staticmethod
    def read(content: bytes, *, introduction: bytes) -> "Candidate":
        """Read what anybody has sent.

        Args:
            content: a ``JoinRequest``.
            introduction: SHA-256 of what this server hands over.

        Raises:
            JoinError: ``malformed`` or ``unproven-key``.
        """
        try:
            asked = JoinRequest.FromString(content)
        except DecodeError:
            raise JoinError(JoinRefusal.MALFORMED) from None
        lengths = (len(asked.secret), len(asked.key), len(asked.identity))
        if lengths != (SECRET_BYTES, KEY_BYTES, KEY_BYTES):
            raise JoinError(JoinRefusal.MALFORMED)
        statement = _signed(asked.secret, asked.key, asked.identity, introduction)
        signed = ((asked.key, asked.signature), (asked.identity, asked.identity_signature))
        if not all(has_signed(key, signature, statement) for key, signature in signed):
            raise JoinError(JoinRefusal.UNPROVEN)
        version = asked.version if asked.version.isascii() and asked.version.isprintable() else ""
        return Candidate(
            secret=asked.secret,
            key=asked.key.hex(),
            identity=asked.identity.hex(),
            version=version[:_LONGEST_VERSION],
        )


def _signed(secret: bytes, key: bytes, identity: bytes, introduction: bytes) -> bytes:
    """Each part has its length, so that none can pass for another."""
    return _JOINED + introduction + secret + key + identity
