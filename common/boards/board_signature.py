"""The signatures on a board's manifest, and what a reader has pinned of those who may sign.

A manifest is signed as bytes with Ed25519 (RFC 8032). Readers know a public key or a root document beforehand, so a
board can come from any mirror: whoever stands between can withhold it, and cannot change it.
"""

from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.common.boards.ed25519_keys import key_id, read_public
from fedboard.common.boards.manifest import (
    FORMAT,
    MAX_MANIFEST_BYTES,
    Cosignature,
    Manifest,
    SignedManifest,
)
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.roots import BOARDS, MAX_ROOT_BYTES, WITNESSES, Root, RootError
from fedboard.common.boards.validity import Clock
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError

__all__ = ["MAX_MANIFEST_BYTES", "Cosignature", "PinnedKey", "SignedManifest", "message_to_sign"]

_DOMAIN = FORMAT.encode() + b"\0"


class PinnedKey:
    """Who may sign boards, and who must have cosigned them, as a reader trusts it: the keys that a root names, or
    one key, known beforehand; and the witnesses of the reader's own policy, whatever a root says.
    """

    def __init__(self, key: Ed25519PublicKey | Root, *, witnesses: Witnesses | None = None) -> None:
        """Trust one key, or a root.

        Args:
            key: who signs.
            witnesses: who must have cosigned; None: nobody.
        """
        self.root = key if isinstance(key, Root) else Root.of_key(key)
        self.witnesses = witnesses
        self._role = self.root.roles[BOARDS]
        self.id = key_id(Ed25519PublicKey.from_public_bytes(self.raw))

    @property
    def raw(self) -> bytes:
        """The 32 bytes of the first of its keys. Public."""
        return self._role.keys[0]

    @property
    def keys(self) -> tuple[bytes, ...]:
        """All keys that may sign, 32 bytes each. Public."""
        return self._role.keys

    @property
    def threshold(self) -> int:
        """How many of them must have signed."""
        return self._role.threshold

    @classmethod
    def read(cls, path: Path, *, witnesses: Witnesses | None = None) -> "PinnedKey":
        """Read a public key in a PEM file (``board-signing.pub``), or a root document (``1.root.json``).

        Args:
            path: of the file.
            witnesses: who must have cosigned; None: nobody.

        Raises:
            InputError: neither of them is there.
        """
        try:
            with path.open("rb") as stream:
                content = stream.read(MAX_ROOT_BYTES + 1)
        except OSError:
            content = b""
        if not content.lstrip().startswith(b"{"):
            return cls(read_public(path, signed="boards"), witnesses=witnesses)
        try:
            return cls(Root.from_bytes(content), witnesses=witnesses)
        except RootError as error:
            raise InputError(f"{path}: {error}") from error

    def successor(self, content: bytes) -> "PinnedKey":
        """What the next root says, if it counts. One that names other witnesses than those who are trusted counts
        only if enough of these have signed it too.

        Raises:
            RootError: see ``Root.successor``.
        """
        if self.witnesses is None:
            return PinnedKey(self.root.successor(content))
        root = self.root.successor(content, witnesses=self.witnesses)
        named = root.roles.get(WITNESSES)
        if named is None:
            return PinnedKey(root, witnesses=self.witnesses)
        try:
            return PinnedKey(root, witnesses=Witnesses(named.keys, named.threshold))
        except InputError as error:
            raise RootError(f"version {root.version} of the root: {error}") from error

    def followed(self, place: Callable[[int], Path]) -> "PinnedKey":
        """What the newest of the roots in files says, as far as each follows from the one before.

        Args:
            place: where the root of a version lies, if there is one.
        """
        keys = self
        while True:
            try:
                keys = keys.successor(place(keys.root.version + 1).read_bytes())
            except (OSError, RootError):
                return keys

    def open(self, signed: SignedManifest) -> Manifest:
        """Verify the signatures, then read the manifest; whether it has expired is another question.

        One of another format is ``bad-signature``: the name of the format is signed with it.

        Raises:
            FeedRefusedError: ``bad-signature``, ``malformed``, or ``too-large``.
        """
        content = _bounded(signed)
        if not self._signed(signed, _DOMAIN + content):
            raise FeedRefusedError(FeedCode.BAD_SIGNATURE)
        return Manifest.from_bytes(content)

    def open_newest(self, signed: SignedManifest, *, clock: Clock) -> Manifest:
        """The same for a manifest that is offered as the newest one: neither it nor the root may have expired, and
        enough witnesses must have cosigned it.

        Raises:
            FeedRefusedError: as for ``open``; also ``root-expired``, ``not-witnessed`` or ``out-of-date``.
        """
        if not self.root.is_current(clock):
            raise FeedRefusedError(FeedCode.ROOT_EXPIRED)
        manifest = self.open(signed)
        self.require_cosigned(signed)
        if not manifest.is_current(clock):
            raise FeedRefusedError(FeedCode.OUT_OF_DATE)
        return manifest

    def require_cosigned(self, signed: SignedManifest) -> None:
        """Refuse a manifest that too few witnesses have cosigned.

        Raises:
            FeedRefusedError: ``not-witnessed``.
        """
        if self.witnesses is not None and not self.witnesses.suffice(signed):
            raise FeedRefusedError(FeedCode.NOT_WITNESSED)

    def _signed(self, signed: SignedManifest, message: bytes) -> bool:
        try:
            signatures = tuple(bytes.fromhex(one) for one in signed.signatures)
        except ValueError:
            return False
        return self._role.has_signed(signatures, message)


def _bounded(signed: SignedManifest) -> bytes:
    content = signed.content.encode("utf-8", "replace")
    if len(content) > MAX_MANIFEST_BYTES:
        raise FeedRefusedError(FeedCode.TOO_LARGE)
    return content


def message_to_sign(content: bytes) -> bytes:
    """A manifest's bytes behind the name of the format, so that no other signature passes for one."""
    return _DOMAIN + content
