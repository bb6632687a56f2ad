"""Who sends a request: Flower's signature of a node, checked before anything of the request is read or goes on."""

import base64
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from fedboard.common.errors import InputError

# As Flower has them; to import it for these takes the proxy half a second, and a test compares.
_KEY: Final = b"flwr-public-key"
_TIME: Final = b"flwr-timestamp"
_SIGNATURE: Final = b"flwr-signature"
_OLDEST_SECONDS: Final = 300
_CLOCK_SECONDS: Final = 5
"""By which clocks may be apart."""


class AdmittedNodes:
    """The nodes whose requests count. A node signs the time of each request with its private key."""

    def __init__(self, keys: Iterable[str]) -> None:
        """Make ready.

        Args:
            keys: public keys, PEM text.

        Raises:
            InputError: one is no key on an elliptic curve.
        """
        self._keys: dict[bytes, ec.EllipticCurvePublicKey] = {}
        self.replace(keys)

    def replace(self, keys: Iterable[str]) -> None:
        """From now on these count and no others; keys that did before are not read again.

        Raises:
            InputError: one is no key on an elliptic curve; nothing has changed.
        """
        before = self._keys
        self._keys = {key.encode(): before.get(key.encode()) or _public_key(key) for key in keys}

    @property
    def keys(self) -> Mapping[bytes, ec.EllipticCurvePublicKey]:
        """Of those who count, by name."""
        return self._keys

    @property
    def names(self) -> frozenset[bytes]:
        """Public keys of those who count."""
        return frozenset(self._keys)

    def sender(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        """The public key of the node that signed these headers just now; None if no admitted node did.

        Args:
            headers: of the request, names in lower case, each given once.
        """
        try:
            name = base64.b64decode(headers[_KEY], validate=True)
            key, time = self._keys[name], headers[_TIME]
            signed = datetime.fromisoformat(time.decode("ascii"))
            age = (datetime.now(UTC) - signed).total_seconds()
            if not -_CLOCK_SECONDS < age < _OLDEST_SECONDS + _CLOCK_SECONDS:
                return None
            signature = base64.b64decode(headers[_SIGNATURE], validate=True)
            key.verify(signature, time, ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, TypeError, OverflowError, InvalidSignature):
            return None
        return name


def _public_key(pem: str) -> ec.EllipticCurvePublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except ValueError as error:
        raise InputError("the public key of a node is no PEM text of a key") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError("the public key of a node is not on an elliptic curve")
    return key
