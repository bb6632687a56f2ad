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

from fedboard.common.boards.ed25519_keys import DeviceKeyPair, KeyPair, has_signed, read_public
from fedboard.common.errors import InputError

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
        except ValueError:
            signature = b""
        if not has_signed(authority, signature, _DOMAIN + line):
            raise InputError("this list of devices is not signed by the authority that must sign it")
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


class RosterAuthority(KeyPair):
    """The private key that signs lists of devices. It is best kept off the machine of the fleet's server.

    Devices and runs name its public half in hexadecimal digits.
    """

    PRIVATE_NAME, PUBLIC_NAME = "roster-authority.key", "roster-authority.pub"
    SIGNED = "lists of devices"

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


class IdentityKey(DeviceKeyPair):
    """A device's identity: the private key by which it is known to other devices. It never leaves the device.

    Its public half is what a list of devices holds.
    """

    PRIVATE_NAME, PUBLIC_NAME = "identity.key", "identity.pub"
    SIGNED = "a device's statements"


def public_key(path: Path) -> bytes:
    """The 32 bytes of a public key in a PEM file: of a device, or of an authority.

    Raises:
        InputError: no Ed25519 public key there.
    """
    return read_public(path, signed="lists of devices").public_bytes_raw()
