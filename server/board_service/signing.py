"""The key that boards are signed with. Whoever holds it decides what readers take for a board."""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fedboard.common.board_service.manifest import Manifest, PinnedKey, SignedManifest, message_to_sign
from fedboard.common.errors import InputError
from fedboard.common.node_keys import write_new

PRIVATE_NAME = "board-signing.key"
PUBLIC_NAME = "board-signing.pub"


class SigningKey:
    """An Ed25519 private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PinnedKey(key.public_key())
        self.id = self.public.id

    @classmethod
    def read(cls, path: Path) -> "SigningKey":
        """Read a PEM file that only its owner can read.

        Raises:
            InputError: no Ed25519 private key there, or others can read it.
        """
        try:
            key = load_pem_private_key(path.read_bytes(), password=None)
            shared = path.stat().st_mode & 0o077
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise InputError(f"{path}: no private key can be read there ({error})") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(f"{path}: boards are signed with Ed25519; this is another kind of key")
        if shared:
            raise InputError(f"{path}: others can read this key; take their rights away: chmod 600 {path}")
        return cls(key)

    def sign(self, manifest: Manifest) -> SignedManifest:
        """Sign a manifest that names this key.

        Raises:
            InputError: it names another key.
        """
        if manifest.key_id != self.id:
            raise InputError(f"the manifest names the key {manifest.key_id}, this one is {self.id}")
        content = manifest.to_bytes()
        signature = self._key.sign(message_to_sign(content))
        return SignedManifest(content=content.decode(), signature=signature.hex())


def create_board_keys(folder: Path) -> tuple[Path, Path]:
    """Make a fresh key pair: ``board-signing.key`` (readable by its owner alone) and ``board-signing.pub``.

    Returns:
        The two paths, the private one first.

    Raises:
        InputError: one of them is there already; a key is never overwritten.
    """
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / PRIVATE_NAME, folder / PUBLIC_NAME
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    write_new({private: secret}, secret=True)
    write_new({public: shown}, secret=False)
    return private, public


__all__ = ["PRIVATE_NAME", "PUBLIC_NAME", "SigningKey", "create_board_keys"]
