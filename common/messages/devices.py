"""A device's calls of the service ``Devices``: names and limits that both sides keep, and who calls.

A device signs each call of ``Work`` and ``Answer`` with its Ed25519 key: over the method, the time, the name of the
work that it answers, and the SHA-256 of what it sends. That stands in the initial metadata, so a server knows who
calls before it reads a message. The time, in microseconds, is later in each call of a device than in the one
before, so that a call that was recorded is none any more. What is asked, and what comes back, are signed and
sealed beyond that.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.common.boards.ed25519_keys import DeviceKeyPair

SERVICE: Final = "fedboard.v1.Devices"
CHUNK_BYTES: Final = 1 << 16
"""Of an answer, in each message but the last."""
QUESTION_CHUNK_BYTES: Final = 1 << 18
MAX_REQUEST_BYTES: Final = CHUNK_BYTES + (1 << 10)
"""Most bytes of one message to the server."""
MAX_REPLY_BYTES: Final = QUESTION_CHUNK_BYTES + (1 << 12)
"""Most bytes of one message to a device."""
LONGEST_SECONDS: Final = 3600.0
"""Of any call, and of the pause between two."""
BYTES_A_SECOND: Final = 1 << 14
"""Whoever is slower than that is not waited for."""
OLDEST_SECONDS: Final = 300.0
"""Of a call, and how far clocks may be apart."""
NO_WORK: Final = "-"
KEY, TIME, WORK, DIGEST, SIGNATURE = (
    *("fedboard-key", "fedboard-time", "fedboard-work", "fedboard-body"),
    "fedboard-signature-bin",
)
"""Metadata of a call: its sender's public key, 64 hexadecimal digits; microseconds since 1970 UTC; the name of what
is answered, or ``-``; SHA-256 of the message, or of the answer that comes in chunks, hexadecimal; 64 bytes."""
_FIELDS: Final = {
    KEY: re.compile("[0-9a-f]{64}"),
    TIME: re.compile("[0-9]{1,18}"),
    WORK: re.compile("-|[0-9a-f]{32}"),
    DIGEST: re.compile("[0-9a-f]{64}"),
}
_DOMAIN: Final = b"fedboard-devices-1"
_MICRO: Final = 1_000_000
_CALL_SECONDS: Final = 30.0

Metadata = Iterable[tuple[str, str | bytes]]
"""Of a call, in the order of its coming; names in lower case."""


class Method(StrEnum):
    """Of the service."""

    INTRODUCE = "Introduce"
    JOIN = "Join"
    WORK = "Work"
    ANSWER = "Answer"

    @property
    def path(self) -> str:
        """As gRPC writes it."""
        return f"/{SERVICE}/{self.value}"


class DeviceKey(DeviceKeyPair):
    """By which a device is known to its server; the private half never leaves the device."""

    PRIVATE_NAME = "device.key"
    PUBLIC_NAME = "device.pub"
    SIGNED = "calls of a device"

    def metadata(
        self, method: Method, digest: str, *, micros: int, work: str = NO_WORK
    ) -> tuple[tuple[str, str | bytes], ...]:
        """Of one call.

        Args:
            method: that is called.
            digest: SHA-256 of what is sent, hexadecimal.
            micros: the time, later than in every call before.
            work: name of what is answered.
        """
        time = str(micros)
        return (
            (KEY, self.public.hex()),
            (TIME, time),
            (WORK, work),
            (DIGEST, digest),
            (SIGNATURE, self.sign(_statement(method, time, work, digest))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What a call says of itself, signed by the key that it names. Its messages are still to be held against it."""

    key: str
    """64 hexadecimal digits."""
    micros: int
    work: str
    digest: str
    """64 hexadecimal digits."""

    def has(self, content: bytes) -> bool:
        """Whether this is what was signed."""
        return hashlib.sha256(content).hexdigest() == self.digest

    @staticmethod
    def read(
        method: Method, metadata: Metadata, keys: Mapping[str, Ed25519PublicKey], *, now: float
    ) -> "Signed | None":
        """What an admitted device has signed just now; None for anything else.

        Args:
            method: that is called.
            metadata: from anybody.
            keys: of those who are admitted, by their name.
            now: seconds since 1970 UTC.
        """
        given = dict[str, str]()
        signature = b""
        for name, value in metadata:
            if name == SIGNATURE and isinstance(value, bytes) and not signature:
                signature = value
            elif name in _FIELDS and isinstance(value, str) and name not in given:
                given[name] = value
            elif name == SIGNATURE or name in _FIELDS:
                return None  # two readers could take it for different calls
        if any(name not in given or not form.fullmatch(given[name]) for name, form in _FIELDS.items()):
            return None
        name, time, work, digest = (given[field] for field in (KEY, TIME, WORK, DIGEST))
        key = keys.get(name)
        if key is None or abs(now - int(time) / _MICRO) > OLDEST_SECONDS:
            return None
        try:
            key.verify(signature, _statement(method, time, work, digest))
        except InvalidSignature:
            return None
        return Signed(key=name, micros=int(time), work=work, digest=digest)


def seconds_for(n_bytes: int) -> float:
    """How long a call may last in which so many bytes travel."""
    return min(_CALL_SECONDS + n_bytes / BYTES_A_SECOND, LONGEST_SECONDS)


def sane_pause(seconds: float) -> float:
    """What the other side says of a pause, in [0, 3600]; 0 for what is no number."""
    return min(max(seconds, 0.0), LONGEST_SECONDS) if math.isfinite(seconds) else 0.0


def _statement(method: Method, time: str, work: str, digest: str) -> bytes:
    """No part can hold a line's end, see ``_FIELDS``."""
    return b"\n".join((_DOMAIN, *(part.encode("ascii") for part in (method.value, time, work, digest))))
