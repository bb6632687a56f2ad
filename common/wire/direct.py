"""A device's requests to its server's door without Flower: work to fetch, an answer to hand in.

Each is one POST over TLS that the device signs with its node key: over what it asks, the answer that it names, the
SHA-256 of the body and the time. The time, in microseconds, is later in each request of a device than in the one
before, so that a request that was recorded is none any more. What is asked, and what comes back, are the messages
that Flower would carry, signed and sealed as they are there.
"""

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

WORK_PATH: Final = "/v1/devices/work"
"""What there is to answer, if anything is; an empty body."""
ANSWER_PATH: Final = "/v1/devices/answer"
"""The reply to it."""
KEY, TIME, SIGNATURE, DIGEST, WORK = (
    *("fedboard-key", "fedboard-time", "fedboard-signature", "fedboard-body"),
    "fedboard-work",
)
"""Headers of a request: its sender's public key, PEM in base64; microseconds since 1970 UTC; base64; SHA-256,
hexadecimal; the name of the work that is answered, which a response with work has too."""
KIND, FRAME_BYTES, PAUSE = "fedboard-kind", "fedboard-frame-bytes", "fedboard-pause"
"""Headers of a response: the type of the message; bytes of the message, behind which a board may follow; seconds
after which the device is to ask again. With the last one a device says after how many it would."""
LONGEST_PAUSE: Final = 3600.0
VERSION: Final = "fedboard-version"
OLDEST_SECONDS: Final = 300.0
"""Of a request, and how far clocks may be apart."""
_DOMAIN: Final = b"fedboard-direct-1"
_HASH: Final = ec.ECDSA(hashes.SHA256())
_NO_WORK: Final = "-"
_MICRO: Final = 1_000_000
_LONGEST_NUMBER: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sends requests: a device with its key."""

    private_key: ec.EllipticCurvePrivateKey
    public_key: bytes
    """PEM text."""

    def headers(self, path: str, body: bytes, *, micros: int, work: str = _NO_WORK) -> dict[str, str]:
        """Of one request.

        Args:
            path: what is asked.
            body: of the request.
            micros: the time, later than in every request before.
            work: name of what is answered.
        """
        digest = hashlib.sha256(body).hexdigest()
        signature = self.private_key.sign(_statement(path, str(micros), work, digest), _HASH)
        return {
            KEY: base64.b64encode(self.public_key).decode("ascii"),
            TIME: str(micros),
            WORK: work,
            DIGEST: digest,
            SIGNATURE: base64.b64encode(signature).decode("ascii"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a request says of itself, signed by the key that it names. Its body is still to be held against it."""

    key: bytes
    """PEM text."""
    micros: int
    work: str
    digest: str

    def has(self, body: bytes) -> bool:
        """Whether this is the body that was signed."""
        return hashlib.sha256(body).hexdigest() == self.digest

    @staticmethod
    def read(
        path: str,
        headers: Mapping[bytes, bytes],
        keys: Mapping[bytes, ec.EllipticCurvePublicKey],
        *,
        now: float,
    ) -> "Request | None":
        """What an admitted device has signed just now; None for anything else.

        Args:
            path: as it was sent.
            headers: names in lower case, each given once.
            keys: of those who are admitted, by PEM text.
            now: seconds since 1970 UTC.
        """
        try:
            name = base64.b64decode(headers[KEY.encode()], validate=True)
            key = keys[name]
            time, work, digest = (headers[word.encode()].decode("ascii") for word in (TIME, WORK, DIGEST))
            if not time.isdecimal() or len(time) > _LONGEST_NUMBER:
                return None
            if abs(now - int(time) / _MICRO) > OLDEST_SECONDS:
                return None
            signature = base64.b64decode(headers[SIGNATURE.encode()], validate=True)
            key.verify(signature, _statement(path, time, work, digest), _HASH)
        except (KeyError, ValueError, InvalidSignature):
            return None
        return Request(key=name, micros=int(time), work=work, digest=digest)


def seconds_of(text: bytes | str) -> float:
    """What a header says of seconds, in [0, 3600]; 0 where it says nothing that can be read."""
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return min(max(found, 0.0), LONGEST_PAUSE) if math.isfinite(found) else 0.0


def _statement(path: str, time: str, work: str, digest: str) -> bytes:
    """No part can hold a line's end: a header has none, and the path is one of two."""
    return b"\n".join((_DOMAIN, *(part.encode("ascii") for part in (path, time, work, digest))))
