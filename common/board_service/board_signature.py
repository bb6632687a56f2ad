"""The signature on a board's manifest, and the key that a reader has pinned.

A manifest is signed as bytes with Ed25519 (RFC 8032). Readers know the public key beforehand, so a board can come
from any mirror: whoever stands between can withhold it, and cannot change it.
"""

from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.common.board_service.manifest import FORMAT, FORMAT_BEFORE, Manifest, Record
from fedboard.common.board_service.refusals import FeedCode, FeedRefusedError
from fedboard.common.keys.ed25519_keys import key_id, read_public
from fedboard.common.protection import Protection

_DOMAIN, _DOMAIN_BEFORE = (name.encode() + b"\0" for name in (FORMAT, FORMAT_BEFORE))
MAX_MANIFEST_BYTES = 1 << 18
"""Most bytes of a manifest that a reader takes."""


class SignedManifest(Record, frozen=True, kw_only=True):
    """A manifest's bytes with their signature, as they travel; not verified yet."""

    content: str
    signature: str
    """64 bytes, hexadecimal."""

    def to_bytes(self) -> bytes:
        """As JSON, for a file of a mirror."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> "SignedManifest":
        """Read what anybody may have written.

        Raises:
            FeedRefusedError: ``malformed`` or ``too-large``.
        """
        if len(content) > 2 * MAX_MANIFEST_BYTES:
            raise FeedRefusedError(FeedCode.TOO_LARGE)
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FeedRefusedError(FeedCode.MALFORMED) from error


class PinnedKey:
    """The public key that a reader trusts, known to her beforehand."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id = key_id(key)

    @property
    def raw(self) -> bytes:
        """Its 32 bytes. Public."""
        return self._key.public_bytes_raw()

    @classmethod
    def read(cls, path: Path) -> "PinnedKey":
        """Read a PEM file (``board-signing.pub``).

        Raises:
            InputError: no Ed25519 public key there.
        """
        return cls(read_public(path, signed="boards"))

    def open(self, signed: SignedManifest) -> Manifest:
        """Verify the signature, then read the manifest.

        Raises:
            FeedRefusedError: ``bad-signature``, ``malformed``, ``too-large``, or ``old-format`` for a manifest of
                the format before, which does not say what the noise is.
        """
        content = _bounded(signed)
        if self._signed(signed, _DOMAIN + content):
            return Manifest.from_bytes(content)
        before = self._signed(signed, _DOMAIN_BEFORE + content)
        raise FeedRefusedError(FeedCode.OLD_FORMAT if before else FeedCode.BAD_SIGNATURE)

    def recall(self, signed: SignedManifest) -> Manifest:
        """Read a manifest that was verified here before, also one of the format before: its board's place in the
        chain still counts, so that an update forgets no rollback. For nothing that is offered.

        Raises:
            FeedRefusedError: as for ``open``, but for ``old-format``.
        """
        content = _bounded(signed)
        if not self._signed(signed, _DOMAIN_BEFORE + content):
            return self.open(signed)
        try:
            stated = {"format": FORMAT, "protection": Protection.UNSTATED}
            return msgspec.convert(msgspec.json.decode(content, type=dict[str, Any]) | stated, type=Manifest)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            raise FeedRefusedError(FeedCode.MALFORMED) from error

    def _signed(self, signed: SignedManifest, message: bytes) -> bool:
        try:
            self._key.verify(bytes.fromhex(signed.signature), message)
        except (InvalidSignature, ValueError):
            return False
        return True


def _bounded(signed: SignedManifest) -> bytes:
    content = signed.content.encode("utf-8", "replace")
    if len(content) > MAX_MANIFEST_BYTES:
        raise FeedRefusedError(FeedCode.TOO_LARGE)
    return content


def message_to_sign(content: bytes) -> bytes:
    """A manifest's bytes behind the name of the format, so that no other signature passes for one."""
    return _DOMAIN + content
