"""Who sends a request: Flower's signature of a node, checked before anything of the request is read or goes on."""

import base64
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER

from fedboard.common.errors import InputError

_KEY: Final = FLEET_HTTP_PUBLIC_KEY_HEADER.lower().encode()
_TIME: Final = TIMESTAMP_HEADER.lower().encode()
_SIGNATURE: Final = FLEET_HTTP_SIGNATURE_HEADER.lower().encode()


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
            if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
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
