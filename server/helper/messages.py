"""What leader and helper say to each other: three questions and their replies, as MessagePack, read strictly.

Who a helper is: an Ed25519 key that it signs the key of each round with; devices pin its public half. How it knows
its leader: by a token, a secret in a file on both sides.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedboard.common.arrays import ResidueArray
from fedboard.common.boards.ed25519_keys import read_private, write_new
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.two_server.helper import HelperPart

TOKEN_HEADER = "fedboard-leader"
_KEY_BYTES = 32
_LEAST_TOKEN = 32
SERVICE: Final = "fedboard.Helper"
"""Its methods are named as what they are asked: ``Begin``, ``Take``, ``Total``."""
MOST_BYTES: Final = (1 << 31) - 1
"""Of one message: gRPC's own limit."""
_RESIDUES: Final = np.dtype("<u4")

_Kind = TypeVar("_Kind", bound="Message")
_Count = Annotated[int, msgspec.Meta(ge=0)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Of either side; its kind goes with it."""

    def to_bytes(self) -> bytes:
        """As it travels."""
        return msgspec.msgpack.encode(self)


class Begin(Message, frozen=True):
    """Asks for the key of a round."""

    about: bytes
    parameters: dict[str, Any]
    """Of the protocol."""
    board: bytes


class Take(Message, frozen=True):
    """Hands over one client's part."""

    about: bytes
    client: str
    shape: tuple[_Count, _Count]
    """Of the keys."""
    keys: bytes
    sealed: bytes

    @classmethod
    def of(cls, about: bytes, client: str, part: HelperPart) -> "Take":
        """The message about one part."""
        n_users, width = part.keys.shape
        return cls(about, client, (n_users, width), part.keys.tobytes(), part.sealed)

    @property
    def part(self) -> HelperPart:
        """The part.

        Raises:
            RefusedError: its keys have another shape than it says.
        """
        try:
            keys = np.frombuffer(self.keys, dtype=np.uint8).reshape(self.shape)
        except ValueError:
            raise RefusedError(Refusal.MALFORMED) from None
        return HelperPart(keys=keys, sealed=self.sealed)


class Total(Message, frozen=True):
    """Asks for the total over these clients."""

    about: bytes
    clients: tuple[str, ...]


class Key(Message, frozen=True):
    """The key of a round: ``RoundKey``."""

    key: bytes
    identity: bytes
    signature: bytes


class Taken(Message, frozen=True):
    """A part counts."""


class Share(Message, frozen=True):
    """The helper's total."""

    share: bytes
    """uint32, little-endian."""

    @classmethod
    def of(cls, share: ResidueArray) -> "Share":
        """The message about one total."""
        return cls(share.astype(_RESIDUES, copy=False).tobytes())

    @property
    def residues(self) -> ResidueArray:
        """The total.

        Raises:
            RefusedError: it ends within a number.
        """
        try:
            return np.frombuffer(self.share, dtype=_RESIDUES).astype(np.uint32, copy=False)
        except ValueError:
            raise RefusedError(Refusal.MALFORMED) from None


class Refused(Message, frozen=True):
    """No."""

    code: Refusal


def read(content: bytes, kind: type[_Kind]) -> _Kind:
    """A message of this kind.

    Raises:
        RefusedError: with the code of a refusal, or it is neither.
    """
    try:
        found: _Kind | Refused = msgspec.msgpack.decode(content, type=kind | Refused)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedError(Refusal.MALFORMED) from None
    if isinstance(found, Refused):
        raise RefusedError(found.code)
    return found


def helper_identity(path: Path) -> Ed25519PrivateKey:
    """Read the key, or make one where there is none.

    Args:
        path: PEM file that only its owner can read.

    Raises:
        InputError: it cannot be read or written, others may read it, or it is another kind of key.
    """
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        try:
            write_new(secret={path: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())})
        except OSError as error:
            raise InputError(f"{path}: no key can be written there ({error.strerror})") from error
        return key
    return read_private(path, signed="the keys of a helper's rounds")


def identity_text(key: Ed25519PrivateKey) -> str:
    """The public half as devices and the leader name it: 64 hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def read_identity(text: str) -> bytes:
    """The public half from its text.

    Raises:
        InputError: not 64 hexadecimal digits.
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _KEY_BYTES:
        raise InputError(
            f"the identity of a helper is 64 hexadecimal digits, as `fedboard helper` prints it, got {text!r}"
        )
    return found


def read_token(path: Path) -> str:
    """Read the leader's secret.

    Args:
        path: one line of at least 32 letters and digits, which only its owner can read.

    Raises:
        InputError: no such file, others may read it, or it is too short or of other characters.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
        shared = os.name == "posix" and path.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: no token can be read there ({error})") from error
    if shared:
        raise InputError(f"{path}: others can read this token; take their rights away: chmod 600 {path}")
    if len(token) < _LEAST_TOKEN or not token.isalnum():
        raise InputError(
            f"{path}: a token is one line of at least {_LEAST_TOKEN} letters and digits; make one with: "
            "openssl rand -hex 32"
        )
    return token
