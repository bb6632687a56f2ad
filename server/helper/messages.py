"""What leader and helper say to each other: three calls over gRPC, read strictly.

A request is MessagePack. ``Begin`` is answered with a ``RoundKey`` as MessagePack, ``Take`` with nothing, ``Total``
with uint32, little-endian; a refusal is a status whose details are its code.

Who a helper is: an Ed25519 key that it signs the key of each round with; devices pin its public half. How it knows
its leader: by a token, a secret in a file on both sides.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import grpc
import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedboard.common.arrays import ResidueArray
from fedboard.common.boards.ed25519_keys import read_private, write_new
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.two_server.helper import HelperPart

TOKEN_HEADER: Final = "fedboard-leader"
SERVICE: Final = "fedboard.Helper"
"""Its methods are named as what they are asked: ``Begin``, ``Take``, ``Total``."""
MOST_BYTES: Final = (1 << 31) - 1
"""Of one message: gRPC's own limit."""
REFUSED: Final = grpc.StatusCode.FAILED_PRECONDITION
"""Status of a refusal."""
_LEAST_TOKEN: Final = 32
_RESIDUES: Final = np.dtype("<u4")

_Kind = TypeVar("_Kind")
_Count = Annotated[int, msgspec.Meta(ge=0)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """Of the leader; its kind goes with it."""

    about: bytes
    """What the round is about."""


class Begin(Request, frozen=True):
    """Asks for the key of a round."""

    parameters: dict[str, Any]
    """Of the protocol."""
    board: bytes


class Take(Request, frozen=True):
    """Hands over one client's part."""

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


class Total(Request, frozen=True):
    """Asks for the total over these clients."""

    clients: tuple[str, ...]


def packed(message: object) -> bytes:
    """A request or a key as it travels."""
    return msgspec.msgpack.encode(message)


def unpacked(content: bytes, kind: type[_Kind]) -> _Kind:
    """A request or a key of this kind.

    Raises:
        RefusedError: it is none.
    """
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedError(Refusal.MALFORMED) from None


def total_to_bytes(total: ResidueArray) -> bytes:
    """The helper's total as it travels."""
    return total.astype(_RESIDUES, copy=False).tobytes()


def total_from_bytes(content: bytes) -> ResidueArray:
    """The total, uint32.

    Raises:
        RefusedError: it ends within a number.
    """
    try:
        return np.frombuffer(content, dtype=_RESIDUES).astype(np.uint32, copy=False)
    except ValueError:
        raise RefusedError(Refusal.MALFORMED) from None


def helper_identity(path: Path) -> Ed25519PrivateKey:
    """Read the key, or make one where there is none.

    Args:
        path: PEM file that only its owner can read.

    Raises:
        InputError: it cannot be read or written, others may read it, or it is another kind of key.
    """
    if path.exists():
        return read_private(path, signed="the keys of a helper's rounds")
    key = Ed25519PrivateKey.generate()
    try:
        write_new(secret={path: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())})
    except OSError as error:
        raise InputError(f"{path}: no key can be written there ({error.strerror})") from error
    return key


def identity_text(key: Ed25519PrivateKey) -> str:
    """The public half as devices and the leader name it: 64 hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


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
