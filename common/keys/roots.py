"""Root documents: which keys sign what, how many of them it takes, and how readers get from one to the next.

A root is a ``root.json`` of The Update Framework (TUF). Root N+1 counts only if a threshold of root N's keys and a
threshold of its own have signed it, so whoever has one root can follow the chain to the newest, however long she
was away, and a key that is left out of the next root signs nothing any more. Boards are signed by the keys of the
role ``targets``; the roles ``questions`` and ``witnesses`` are a field of our own beside TUF's four, which its
clients leave alone. Who has pinned witnesses believes a root that names others only if enough of the pinned ones
have signed it too: the holders of the root alone cannot choose who watches.

Whoever has pinned a single key has pinned the root of version 1 in which that key is all there is.

Reference: the TUF specification 1.0, sections 4.3 (root.json), 5.3 (update the root role) and 6.1.

Canonical JSON: the one form that signatures of The Update Framework (TUF) are over.

Keys in the order of their code points, no white space, no floating point numbers; in a string only quotation marks
and backslashes are escaped, everything else stands for itself in UTF-8.

Reference: the TUF specification, section 4.1, and http://wiki.laptop.org/go/Canonical_JSON.

A folder of root documents: ``1.root.json``, ``2.root.json`` and so on, each signed by keys of the one before.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.common.keys.ed25519_keys import has_signed
from fedboard.common.keys.validity import Clock, is_current, is_utc_text


def canonical_json(value: Any) -> bytes:
    """The canonical form of a value as ``json`` reads it.

    Args:
        value: of dicts with text as keys, lists, text, whole numbers, booleans and None.

    Raises:
        ValueError: it holds something else, such as a floating point number.
    """
    return _written(value).encode("utf-8", "strict")


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return "{" + ",".join(f"{_written(key)}:{_written(value[key])}" for key in sorted(value)) + "}"
    raise ValueError(f"canonical JSON has no {type(value).__name__}")


ROOT, BOARDS, QUESTIONS, WITNESSES = "root", "targets", "questions", "witnesses"
"""Roles: who signs the next root, boards, and questions to devices, and who cosigns manifests."""
TUF_ROLES: Final = ("root", "snapshot", "targets", "timestamp")
OWN_ROLES: Final = "x-fedboard-roles"
"""The field for roles that TUF does not have."""
SPEC_VERSION: Final = "1.0.31"
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
        return cls(version=1, expires=None, roles=dict.fromkeys(TUF_ROLES, role), content=None)

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


class _Key(msgspec.Struct, frozen=True):
    keytype: str
    scheme: str
    keyval: dict[str, str]


class _Role(msgspec.Struct, frozen=True):
    keyids: list[str]
    threshold: int


class _Signed(msgspec.Struct, frozen=True, rename={"type_": "_type", "own_roles": OWN_ROLES}):
    type_: str
    spec_version: str
    version: int
    expires: str
    keys: dict[str, _Key]
    roles: dict[str, _Role]
    own_roles: dict[str, _Role] = {}


class _Signature(msgspec.Struct, frozen=True):
    keyid: str
    sig: str


class _Document(msgspec.Struct, frozen=True):
    signed: _Signed
    signatures: list[_Signature]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRoot:
    """A root document as it came, read but not trusted."""

    root: Root
    message: bytes
    """The canonical form of what is signed."""
    signatures: Mapping[str, bytes]
    """By the id of the key that they claim to be of."""

    @classmethod
    def from_bytes(cls, content: bytes) -> "SignedRoot":
        """Read what anybody may have written.

        Raises:
            RootError: it is no root document.
        """
        if len(content) > MAX_ROOT_BYTES:
            raise RootError(f"a root of more than {MAX_ROOT_BYTES} bytes is not read")
        try:
            plain = msgspec.json.decode(content, type=dict[str, Any])
            document = msgspec.convert(plain, type=_Document)
            message = canonical_json(plain["signed"])
            signatures = {one.keyid: bytes.fromhex(one.sig) for one in document.signatures}
            if len(signatures) != len(document.signatures):
                raise ValueError("two signatures under one id")
            roles = _roles(document.signed)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, KeyError, RecursionError) as error:
            raise RootError("this is no root document that can be read (TUF's root.json, Ed25519)") from error
        signed = document.signed
        root = Root(version=signed.version, expires=signed.expires, roles=roles, content=content)
        return cls(root=root, message=message, signatures=signatures)

    def is_signed_by(self, role: Role) -> bool:
        """Whether enough keys of a role have signed it; each signature counts for the key that it names alone."""
        return len(self.signers(role)) >= role.threshold

    def signers(self, role: Role) -> list[bytes]:
        """The keys of a role that have signed it."""
        named = {key: self.signatures.get(tuf_key_id(key)) for key in role.keys}
        return [key for key, one in named.items() if one and has_signed(key, one, self.message)]


def tuf_key(key: bytes) -> dict[str, Any]:
    """A public key of 32 bytes as TUF writes it."""
    return {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": key.hex()}}


def tuf_key_id(key: bytes) -> str:
    """Its id in TUF documents: SHA-256 of its canonical form, 64 digits."""
    return hashlib.sha256(canonical_json(tuf_key(key))).hexdigest()


def _roles(signed: _Signed) -> dict[str, Role]:
    sound = (
        signed.type_ == "root"
        and signed.spec_version.split(".")[0] == SPEC_VERSION.split(".")[0]
        and 1 <= signed.version < 1 << 31
        and is_utc_text(signed.expires)
        and set(signed.roles) == set(TUF_ROLES)
        and set(signed.own_roles) <= {QUESTIONS, WITNESSES}
    )
    if not sound:
        raise ValueError("not a root of TUF 1")
    keys = {keyid: _key(keyid, key) for keyid, key in signed.keys.items()}
    return {name: _role(role, keys) for name, role in {**signed.roles, **signed.own_roles}.items()}


def _key(keyid: str, key: _Key) -> bytes:
    raw = bytes.fromhex(key.keyval.get("public", ""))
    kind = (key.keytype, key.scheme, set(key.keyval), len(raw))
    if kind != ("ed25519", "ed25519", {"public"}, 32) or tuf_key_id(raw) != keyid:
        raise ValueError("a key of another kind, or under another id than its own")
    return raw


def _role(role: _Role, keys: Mapping[str, bytes]) -> Role:
    raw = tuple(keys[keyid] for keyid in role.keyids)
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
