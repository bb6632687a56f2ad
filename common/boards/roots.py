"""Root documents: which keys sign what, how many of them it takes, and how readers get from one to the next.

Root N+1 counts only if a threshold of root N's keys and a threshold of its own have signed it, so whoever has one
root can follow the chain to the newest, however long she was away, and a key that is left out of the next root
signs nothing any more. Who has pinned witnesses believes a root that names others only if enough of the pinned ones
have signed it too: the holders of the root alone cannot choose who watches. These are the rules of The Update
Framework (TUF), 5.3 and 6.1, over a document like a manifest: JSON that is signed as bytes.

Whoever has pinned a single key has pinned the root of version 1 in which that key is all there is.

A folder has ``1.root.json``, ``2.root.json`` and so on, each signed by keys of the one before.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.common.boards.ed25519_keys import has_signed
from fedboard.common.boards.validity import Clock, is_current, is_utc_text
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically

ROOT, BOARDS, QUESTIONS, WITNESSES = "root", "boards", "questions", "witnesses"
"""Roles: who signs the next root, boards, and questions to devices, and who cosigns manifests."""
_FORMAT: Final = "fedboard-root-1"
_DOMAIN: Final = _FORMAT.encode() + b"\0"
_KEY_BYTES: Final = 32
MAX_ROOT_BYTES: Final = 1 << 16
"""Most bytes of a root that are read."""
MOST_ROOTS: Final = 1024
"""A chain is followed over so many roots at a time."""
MOST_KEYS: Final = 16
"""Most keys of a role, and most signatures that are looked at."""


class RootError(FedboardError):
    """A root document that does not count; what was trusted before still is."""


@dataclass(frozen=True, slots=True)
class Role:
    """Who signs one kind of thing. Public."""

    keys: tuple[bytes, ...]
    """Ed25519 public keys, 32 bytes each, all different."""
    threshold: int
    """How many of them must have signed; in [1, len(keys)]."""

    def is_same(self, other: "Role") -> bool:
        """Whether both name the same keys, in any order, and the same threshold."""
        return (set(self.keys), self.threshold) == (set(other.keys), other.threshold)

    def has_signed(self, signatures: tuple[bytes, ...], message: bytes) -> bool:
        """Whether enough of the keys have signed a message. A key counts once, whatever is signed how often.

        Args:
            signatures: 64 bytes each, from anybody.
            message: what was signed.
        """
        looked_at = signatures[:MOST_KEYS]
        found = sum(any(has_signed(key, one, message) for one in looked_at) for key in self.keys)
        return found >= self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """What is trusted: keys and thresholds by role. Public."""

    version: int
    expires: str | None
    """UTC; None for a single pinned key."""
    roles: Mapping[str, Role]
    content: bytes | None
    """As it was signed and came; None for a single pinned key."""

    @classmethod
    def of_key(cls, key: Ed25519PublicKey) -> "Root":
        """The root of version 1 of whoever has pinned one key: it signs everything, also the next root."""
        role = Role((key.public_bytes_raw(),), 1)
        return cls(version=1, expires=None, roles={ROOT: role, BOARDS: role}, content=None)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Root":
        """A root that is known beforehand, such as one that is pinned.

        Raises:
            RootError: it is none, or its own keys have not signed it.
        """
        document = SignedRoot.from_bytes(content)
        if not document.is_signed_by(document.root.roles[ROOT]):
            raise RootError(
                f"version {document.root.version} of the root is not signed by "
                f"{document.root.roles[ROOT].threshold} of its own root keys; sign it with: fedboard keys sign"
            )
        return document.root

    def successor(self, content: bytes, *, witnesses: Role | None = None) -> "Root":
        """The next root.

        Args:
            content: from anybody.
            witnesses: whom the reader trusts to cosign; None: nobody.

        Raises:
            RootError: it is not the next version, too few keys of this root or of itself have signed it, or it
                names other witnesses and too few of those who are trusted have signed it.
        """
        document = SignedRoot.from_bytes(content)
        if document.root.version != self.version + 1:
            raise RootError(
                f"version {document.root.version} of the root does not follow version {self.version}"
            )
        for root in (self, document.root):
            if not document.is_signed_by(root.roles[ROOT]):
                raise RootError(
                    f"version {document.root.version} of the root is not signed by {root.roles[ROOT].threshold} "
                    f"of the root keys of version {root.version}"
                )
        named = document.root.roles.get(WITNESSES)
        replaced = witnesses is not None and named is not None and not named.is_same(witnesses)
        if witnesses is not None and replaced and not document.is_signed_by(witnesses):
            raise RootError(
                f"version {document.root.version} of the root names other witnesses, and {witnesses.threshold} of "
                f"the {len(witnesses.keys)} that are trusted here have not signed it; they sign it with: fedboard "
                "keys sign"
            )
        return document.root

    def is_current(self, clock: Clock = time.time) -> bool:
        """Whether it has not expired, by a clock that may differ by ``CLOCK_SECONDS``."""
        return self.expires is None or is_current(signed=None, expires=self.expires, clock=clock)


class _Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: tuple[str, ...]
    threshold: int


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["fedboard-root-1"]
    version: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
    expires: str
    roles: dict[Literal["root", "boards", "questions", "witnesses"], _Role]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    content: str
    signatures: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRoot:
    """A root document as it came, read but not trusted."""

    root: Root
    text: str
    """What is signed."""
    signatures: Mapping[bytes, bytes]
    """By the public key that they claim to be of."""

    @classmethod
    def from_bytes(cls, content: bytes) -> "SignedRoot":
        """Read what anybody may have written.

        Raises:
            RootError: it is no root document.
        """
        if len(content) > MAX_ROOT_BYTES:
            raise RootError(f"a root of more than {MAX_ROOT_BYTES} bytes is not read")
        try:
            document = msgspec.json.decode(content, type=_Document)
            said = msgspec.json.decode(document.content, type=_Content)
            signatures = {_raw(key): bytes.fromhex(one) for key, one in document.signatures.items()}
            roles: dict[str, Role] = {name: _role(role) for name, role in said.roles.items()}
            if not {ROOT, BOARDS} <= set(roles) or not is_utc_text(said.expires):
                raise ValueError("not who signs roots and boards, or not until when")
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise RootError("this is no root document that can be read") from error
        root = Root(version=said.version, expires=said.expires, roles=roles, content=content)
        return cls(root=root, text=document.content, signatures=signatures)

    @property
    def message(self) -> bytes:
        """What its holders sign: no other signature of theirs passes for it."""
        return _DOMAIN + self.text.encode()

    def is_signed_by(self, role: Role) -> bool:
        """Whether enough keys of a role have signed it; each signature counts for the key that it names alone."""
        return len(self.signers(role)) >= role.threshold

    def signers(self, role: Role) -> list[bytes]:
        """The keys of a role that have signed it."""
        named = {key: self.signatures.get(key) for key in role.keys}
        return [key for key, one in named.items() if one and has_signed(key, one, self.message)]


def root_text(*, version: int, expires: str, roles: Mapping[str, Role]) -> str:
    """What a root says, as it is signed."""
    said = {
        name: _Role(tuple(key.hex() for key in role.keys), role.threshold) for name, role in roles.items()
    }
    content = {"format": _FORMAT, "version": version, "expires": expires, "roles": said}
    return msgspec.json.encode(content).decode()


def root_document(text: str, signatures: Mapping[bytes, bytes]) -> bytes:
    """The file of a root."""
    signed = {key.hex(): one.hex() for key, one in sorted(signatures.items())}
    return msgspec.json.format(msgspec.json.encode(_Document(text, signed)), indent=1) + b"\n"


def _raw(text: str) -> bytes:
    raw = bytes.fromhex(text)
    if len(raw) != _KEY_BYTES or raw.hex() != text:
        raise ValueError("a key is 64 hexadecimal digits")
    return raw


def _role(role: _Role) -> Role:
    raw = tuple(map(_raw, role.keys))
    if len(set(raw)) != len(raw) or not 1 <= role.threshold <= len(raw) <= MOST_KEYS:
        raise ValueError("a role with no keys, a key twice, or a threshold that it cannot reach")
    return Role(raw, role.threshold)


class RootFolder:
    """The chain of a fleet's roots on a disk. The newest file may be a draft that too few have signed yet."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which may be missing or empty."""
        self.folder = folder

    def path(self, version: int) -> Path:
        """Where the root of a version lies."""
        return self.folder / f"{version}.root.json"

    def versions(self) -> list[int]:
        """Whose files are there, ascending."""
        names = (path.name.partition(".")[0] for path in self.folder.glob("*.root.json"))
        return sorted(int(name) for name in names if name.isdigit())

    def content(self, version: int) -> bytes:
        """A file, as it is.

        Raises:
            InputError: it cannot be read.
        """
        try:
            with self.path(version).open("rb") as stream:
                return stream.read(MAX_ROOT_BYTES + 1)
        except OSError as error:
            raise InputError(f"{self.path(version)}: no root can be read there ({error.strerror})") from error

    def chain(self) -> list[Root]:
        """The roots that count, oldest first, each verified against the one before; a draft at the end does not.

        Raises:
            InputError: one of them does not follow from the one before, though there are later ones.
        """
        found: list[Root] = []
        versions = self.versions()
        for version in versions:
            try:
                content = self.content(version)
                found.append(found[-1].successor(content) if found else Root.from_bytes(content))
            except RootError as error:
                if version == versions[-1]:
                    break
                raise InputError(f"{self.path(version)}: {error}") from error
        return found

    def before(self, version: int) -> Root | None:
        """The root before a version; None for the first, or where it is not at hand."""
        return next((root for root in self.chain() if root.version == version - 1), None)

    @property
    def draft(self) -> int | None:
        """The version of a newest file that does not count yet; None where there is none."""
        versions, chain = self.versions(), self.chain()
        newest = chain[-1].version if chain else 0
        return versions[-1] if versions and versions[-1] > newest else None

    def take(self, chain: list[Root]) -> None:
        """Publish roots into this folder, oldest first; those that are there stay.

        Raises:
            InputError: another root of one of these versions is there; a root that was published is never changed.
        """
        for root in chain:
            self.folder.mkdir(parents=True, exist_ok=True)
            content, place = root.content or b"", self.path(root.version)
            if not place.exists():
                write_atomically(place, content)
            elif place.read_bytes() != content:
                raise InputError(
                    f"{place}: another root of version {root.version} was published; a root never changes, the "
                    "next one is made with: fedboard keys rotate"
                )
