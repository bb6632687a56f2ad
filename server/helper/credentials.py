"""Who a helper is, and how it knows its leader.

Its identity is an Ed25519 key that it signs the key of each round with; devices pin its public half. The leader's
token is a secret in a file on both sides.
"""

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedboard.common.boards.ed25519_keys import read_private, write_new
from fedboard.common.errors import InputError

TOKEN_HEADER = "fedboard-leader"
_KEY_BYTES = 32
_LEAST = 32


def helper_identity(path: Path) -> Ed25519PrivateKey:
    """Read the key, or make one where there is none.

    Args:
        path: PEM file that only its owner can read.

    Raises:
        InputError: it cannot be read or written, others may read it, or it is another kind of key.
    """
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        try:
            write_new(secret={path: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())})
        except OSError as error:
            raise InputError(f"{path}: no key can be written there ({error.strerror})") from error
        return key
    return read_private(path, signed="the keys of a helper's rounds")


def identity_text(key: Ed25519PrivateKey) -> str:
    """The public half as devices and the leader name it: 64 hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def read_identity(text: str) -> bytes:
    """The public half from its text.

    Raises:
        InputError: not 64 hexadecimal digits.
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _KEY_BYTES:
        raise InputError(
            f"the identity of a helper is 64 hexadecimal digits, as `fedboard helper` prints it, got {text!r}"
        )
    return found


def read_token(path: Path) -> str:
    """Read the leader's secret.

    Args:
        path: one line of at least 32 letters and digits, which only its owner can read.

    Raises:
        InputError: no such file, others may read it, or it is too short or of other characters.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
        shared = os.name == "posix" and path.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: no token can be read there ({error})") from error
    if shared:
        raise InputError(f"{path}: others can read this token; take their rights away: chmod 600 {path}")
    if len(token) < _LEAST or not token.isalnum():
        raise InputError(
            f"{path}: a token is one line of at least {_LEAST} letters and digits; make one with: "
            "openssl rand -hex 32"
        )
    return token
