"""Who may be in a fleet's sessions: a list of devices' identity keys, signed by somebody whom the devices name.

A server that sums what it cannot see could make up the clients whom one device is told of, and so see that device
alone. Against that each device has an identity key, and an *authority* signs which identity keys are of real
devices. What the list is worth is what its authority is worth: one that signs keys of the server's own making
vouches for nothing. Nobody learns from a list who a device is: it holds public keys and nothing else.

A file of two lines: ``fedboard-roster-1`` and an Ed25519 signature in 128 hexadecimal digits, then a line of JSON,
signed as the bytes that stand there, under a prefix of its own. It is verified before anything in it is read.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedboard.common.errors import InputError
from fedboard.common.keys.ed25519_keys import read_private, read_public, write_pair

KEY_BYTES, SIGNATURE_BYTES = 32, 64
MOST_DEVICES = 1 << 16
_FORMAT = "fedboard-roster-1"
_DOMAIN = b"fedboard roster 1\0"
_PREFIX = len(_FORMAT) + 1 + 2 * SIGNATURE_BYTES + 1
_MOST_BYTES = 1 << 23

_Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fleet: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    number: Annotated[int, msgspec.Meta(ge=1, lt=1 << 53)]
    until: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
    devices: Annotated[list[_Hex], msgspec.Meta(max_length=MOST_DEVICES)]


@dataclass(frozen=True, kw_only=True, repr=False)
class Roster:
    """A list that an authority has signed. Public."""

    content: bytes
    """As it stands in its file."""
    fleet: str
    """Whose list."""
    number: int
    """Of this version of it; a later one has a larger number."""
    until: int
    """Last second, since 1970 UTC, at which it holds."""
    keys: tuple[bytes, ...]
    """Identity keys, 32 bytes each, ascending; a device's place among them is what it is called in a session."""

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the file."""
        return hashlib.sha256(self.content).digest()

    def place(self, key: bytes) -> int | None:
        """Where an identity key stands; None where it is not listed."""
        return self._places.get(key)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {key: place for place, key in enumerate(self.keys)}

    @staticmethod
    def read(content: bytes, *, authority: bytes) -> "Roster":
        """Read a list that this authority has signed.

        Args:
            content: from anybody.
            authority: its public key, 32 bytes.

        Raises:
            InputError: not a list, not signed by this authority, or a key is listed twice or out of order.
        """
        head, line = content[: _PREFIX - 1], content[_PREFIX:]
        if len(content) > _MOST_BYTES or not head.startswith(_FORMAT.encode() + b" "):
            raise InputError(f"this is no list of devices, which begins with {_FORMAT!r}")
        try:
            signature = bytes.fromhex(head[len(_FORMAT) + 1 :].decode("ascii"))
            Ed25519PublicKey.from_public_bytes(authority).verify(signature, _DOMAIN + line)
        except (InvalidSignature, ValueError):
            raise InputError(
                "this list of devices is not signed by the authority that must sign it"
            ) from None
        try:
            found = msgspec.json.decode(line, type=_Content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InputError(
                "this list of devices is signed and cannot be read: another version made it"
            ) from None
        keys = tuple(bytes.fromhex(key) for key in found.devices)
        if list(keys) != sorted(set(keys)):
            raise InputError("a list of devices names each key once, in ascending order")
        if content[_PREFIX - 1 : _PREFIX] != b"\n":
            raise InputError("a list of devices has two lines")
        return Roster(content=content, fleet=found.fleet, number=found.number, until=found.until, keys=keys)

    @staticmethod
    def load(path: Path, *, authority: bytes) -> "Roster":
        """Read a file.

        Raises:
            InputError: as for ``read``, or it is not there; names the file.
        """
        try:
            return Roster.read(path.read_bytes(), authority=authority)
        except OSError as error:
            raise InputError(f"{path}: no list of devices can be read there ({error.strerror})") from error
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


class RosterAuthority:
    """The private key that signs lists of devices. It is best kept off the machine of the fleet's server."""

    PRIVATE_NAME, PUBLIC_NAME = "roster-authority.key", "roster-authority.pub"

    def __init__(self, key: Ed25519PrivateKey | None = None) -> None:
        """Use a key, or make a fresh one."""
        self._key = Ed25519PrivateKey.generate() if key is None else key

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes; devices and runs name it in hexadecimal digits."""
        return self._key.public_key().public_bytes_raw()

    @classmethod
    def load(cls, path: Path) -> "RosterAuthority":
        """Read a PEM file that only its owner can read.

        Raises:
            InputError: no Ed25519 private key there, or others can read it.
        """
        return cls(read_private(path, signed="lists of devices"))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``roster-authority.key``, readable by its owner alone, and ``roster-authority.pub``.

        Raises:
            InputError: one of them is there already; a key is never overwritten.
        """
        return _written(self._key, folder, self.PRIVATE_NAME, self.PUBLIC_NAME)

    def sign(
        self,
        devices: Iterable[bytes],
        *,
        fleet: str,
        number: int,
        seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> Roster:
        """Vouch for these devices.

        Args:
            devices: identity keys, 32 bytes each, in any order.
            fleet: whose list it is.
            number: larger than that of every list signed before.
            seconds: how long the list holds.
            clock: of this machine.

        Raises:
            InputError: a key is none or is named twice, or a number is out of range.
        """
        keys = sorted(devices)
        if any(len(key) != KEY_BYTES for key in keys) or len(set(keys)) != len(keys):
            raise InputError(f"devices must be identity keys of {KEY_BYTES} bytes, each named once")
        if not fleet or number < 1 or seconds <= 0 or len(keys) > MOST_DEVICES:
            raise InputError(
                f"a list of devices has a fleet's name, a number >= 1, a time > 0 and up to {MOST_DEVICES} devices"
            )
        content = _Content(fleet, number, int(clock() + seconds), [key.hex() for key in keys])
        line = msgspec.json.encode(content)
        head = f"{_FORMAT} {self._key.sign(_DOMAIN + line).hex()}\n".encode()
        return Roster.read(head + line, authority=self.public)


class IdentityKey:
    """A device's identity: the private key by which it is known to other devices. It never leaves the device."""

    PRIVATE_NAME, PUBLIC_NAME = "identity.key", "identity.pub"

    def __init__(self, key: Ed25519PrivateKey | None = None) -> None:
        """Use a key, or make a fresh one."""
        self._key = Ed25519PrivateKey.generate() if key is None else key

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes: what a list of devices holds."""
        return self._key.public_key().public_bytes_raw()

    @classmethod
    def load(cls, path: Path) -> "IdentityKey":
        """Read a PEM file that only its owner can read.

        Raises:
            InputError: no Ed25519 private key there, or others can read it.
        """
        return cls(read_private(path, signed="a device's statements"))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``identity.key``, readable by its owner alone, and ``identity.pub``.

        Raises:
            InputError: one of them is there already; a key is never overwritten.
        """
        return _written(self._key, folder, self.PRIVATE_NAME, self.PUBLIC_NAME)

    def sign(self, statement: bytes) -> bytes:
        """A signature, 64 bytes.

        Args:
            statement: begins with what it is, so that it passes for nothing else.
        """
        return self._key.sign(statement)


def has_signed(key: bytes, signature: bytes, statement: bytes) -> bool:
    """Whether the owner of an identity key has signed a statement.

    Args:
        key: 32 bytes of a list.
        signature: from anybody.
        statement: as for ``IdentityKey.sign``.
    """
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def public_key(path: Path) -> bytes:
    """The 32 bytes of a public key in a PEM file: of a device, or of an authority.

    Raises:
        InputError: no Ed25519 public key there.
    """
    return read_public(path, signed="lists of devices").public_bytes_raw()


def _written(key: Ed25519PrivateKey, folder: Path, private: str, public: str) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    write_pair(key, private=folder / private, public=folder / public)
    return folder / private, folder / public
