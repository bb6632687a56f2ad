"""Ed25519 keys (RFC 8032) in PEM files: what a server signs with, and what a reader or a device pins."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from fedboard.common.errors import InputError

_PUBLIC, _SECRET = 0o644, 0o600


class KeyPair:
    """A private key with its public half. A kind of key is a class of its own, with the names of its files."""

    PRIVATE_NAME: ClassVar[str]
    PUBLIC_NAME: ClassVar[str]
    SIGNED: ClassVar[str]
    """What is signed with it, for errors, such as ``questions``."""

    def __init__(self, key: Ed25519PrivateKey | None = None) -> None:
        """Use a key, or make a fresh one."""
        self._key = Ed25519PrivateKey.generate() if key is None else key

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a PEM file that only its owner can read.

        Raises:
            InputError: no Ed25519 private key there, or others can read it.
        """
        return cls(read_private(path, signed=cls.SIGNED))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``PRIVATE_NAME``, readable by its owner alone, and ``PUBLIC_NAME``.

        Returns:
            The two paths, the private one first.

        Raises:
            InputError: one of them is there already; a key is never overwritten.
        """
        private, public = folder / self.PRIVATE_NAME, folder / self.PUBLIC_NAME
        write_pair(self._key, private=private, public=public)
        return private, public


class DeviceKeyPair(KeyPair):
    """One that a device signs statements with."""

    def sign(self, statement: bytes) -> bytes:
        """A signature, 64 bytes.

        Args:
            statement: begins with what it is, so that it passes for nothing else.
        """
        return self._key.sign(statement)


def has_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the owner of a key has signed a message.

    Args:
        key: public, 32 bytes; anything else has signed nothing.
        signature: from anybody.
        message: begins with what it is, so that its signature passes for nothing else.
    """
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_public(path: Path, *, signed: str) -> Ed25519PublicKey:
    """Read a public key.

    Args:
        path: PEM file.
        signed: what is signed with it, for the error, such as ``boards``.

    Raises:
        InputError: no Ed25519 public key there.
    """
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path}: no public key can be read there ({error})") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: {signed} are signed with Ed25519; this is another kind of key")
    return key


def read_private(path: Path, *, signed: str) -> Ed25519PrivateKey:
    """Read a private key that only its owner can read.

    Args:
        path: PEM file.
        signed: what is signed with it, for the error, such as ``boards``.

    Raises:
        InputError: no Ed25519 private key there, or others can read it.
    """
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
        shared = path.stat().st_mode & 0o077
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path}: no private key can be read there ({error})") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: {signed} are signed with Ed25519; this is another kind of key")
    if shared:
        raise InputError(f"{path}: others can read this key; take their rights away: chmod 600 {path}")
    return key


def write_pair(key: Ed25519PrivateKey, *, private: Path, public: Path) -> None:
    """Write a key pair to two new files, the private one readable by its owner alone.

    Raises:
        InputError: one of them is there already; a key is never overwritten.
    """
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    write_new(secret={private: secret}, public={public: shown})


def public_pem(raw: bytes) -> bytes:
    """The PEM file of a public key.

    Args:
        raw: its 32 bytes.

    Raises:
        ValueError: another number of bytes.
    """
    key = Ed25519PublicKey.from_public_bytes(raw)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def key_id(key: Ed25519PublicKey) -> str:
    """A short public name of a key: the first 16 digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def write_new(*, secret: Mapping[Path, bytes], public: Mapping[Path, bytes] | None = None) -> None:
    """Write key files, none of which may be there.

    Args:
        secret: what only its owner may read.
        public: what anybody may.

    Raises:
        InputError: one of all of them is there; nothing was written.
    """
    files = [(*one, _SECRET) for one in secret.items()] + [(*one, _PUBLIC) for one in (public or {}).items()]
    for path, _, _ in files:
        _require_free(path)
    for path, content, mode in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            _require_free(path)
            raise
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)


def _require_free(path: Path) -> None:
    if path.exists():
        raise InputError(
            f"{path} is there already, and a key that is in use must not be lost; move it away first"
        )
