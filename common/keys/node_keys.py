"""The key pair by which a device is known to a server: ECDSA on P-384, in OpenSSH's file formats.

The public half is one line that can be sent by mail and pasted into the server's configuration; ``ssh-keygen -t
ecdsa -b 384`` makes the same files. The private half never leaves the device.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedboard.common.errors import InputError

_PUBLIC = 0o644
_SECRET = 0o600


def make_node_key(private: Path, *, name: str) -> Path:
    """Make a key pair.

    Args:
        private: where the private half goes, mode 0600; the public half goes next to it, with suffix ``.pub``.
        name: of the node, for the people who read the public line.

    Returns:
        The public file.

    Raises:
        InputError: one of the files is there already.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    public = private.with_suffix(".pub")
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    _require_free(public)
    write_new(secret={private: secret}, public={public: line + f" {name}\n".encode()})
    return public


def load_private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a node's private key.

    Raises:
        InputError: it cannot be read, others may read it too, or it is no key on P-384.
    """
    try:
        content = path.read_bytes()
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise InputError(f"{path}: other users of this machine may read this key; run: chmod 600 {path}")
        key = serialization.load_ssh_private_key(content, password=None)
    except OSError as error:
        raise InputError(f"{path}: no private key can be read there ({error.strerror})") from error
    except (ValueError, UnsupportedAlgorithm, NotImplementedError) as error:
        raise InputError(f"{path}: not a private key without a passphrase in OpenSSH's format") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != ec.SECP384R1.name:
        raise InputError(f"{path}: a node needs an ECDSA key on P-384; make one with: fedboard keys node")
    return key


def public_key_pem(line: str, *, source: str) -> str:
    """The same public key as Flower writes it: PEM text.

    Args:
        line: ``ecdsa-sha2-nistp384 AAAA... name``.
        source: where it stands, for the error.

    Raises:
        InputError: it is no public key on P-384.
    """
    try:
        key = serialization.load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm, NotImplementedError) as error:
        raise InputError(f"{source}: not a line ecdsa-sha2-nistp384 AAAA... of a node's .pub file") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != ec.SECP384R1.name:
        raise InputError(f"{source}: a node needs an ECDSA key on P-384; make one with: fedboard keys node")
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return pem.decode("ascii")


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
