"""The key that boards are signed with. Whoever holds it decides what readers take for a board."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.board_service.board_signature import PinnedKey, SignedManifest, message_to_sign
from fedboard.common.board_service.manifest import Manifest
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.keys.ed25519_keys import read_private, write_pair
from fedboard.server.board_service.checked_board import CheckedBoard

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
        return cls(read_private(path, signed="boards"))

    def sign(self, manifest: Manifest, checked: CheckedBoard) -> SignedManifest:
        """Sign a manifest that names this key and says of a board what was found of it.

        Args:
            manifest: of the board. Public.
            checked: the board, with its recomputed certificate.

        Raises:
            InputError: it names another key.
            PrivacyError: it is of another board, or states another protection than was found.
        """
        if manifest.key_id != self.id:
            raise InputError(f"the manifest names the key {manifest.key_id}, this one is {self.id}")
        if not _states(manifest, checked):
            raise PrivacyError(
                f"the manifest of version {manifest.version} does not say what its board is; it is not signed"
            )
        content = manifest.to_bytes()
        signature = self._key.sign(message_to_sign(content))
        return SignedManifest(content=content.decode(), signature=signature.hex())


def _states(manifest: Manifest, checked: CheckedBoard) -> bool:
    board = checked.board
    exact = [file.board_digest for file in manifest.files if file.deviation is None]
    return (
        (manifest.version, manifest.board_digest, manifest.previous_digest)
        == (board.version, board.digest, board.previous_digest)
        and manifest.certificate_digest == (board.certificate or {}).get("digest")
        and manifest.protection is checked.protection
        and set(exact) <= {board.digest}
    )


def create_board_keys(folder: Path) -> tuple[Path, Path]:
    """Make a fresh key pair: ``board-signing.key`` (readable by its owner alone) and ``board-signing.pub``.

    Returns:
        The two paths, the private one first.

    Raises:
        InputError: one of them is there already; a key is never overwritten.
    """
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / PRIVATE_NAME, folder / PUBLIC_NAME
    write_pair(Ed25519PrivateKey.generate(), private=private, public=public)
    return private, public
