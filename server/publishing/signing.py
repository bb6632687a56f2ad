"""The keys that boards are signed with. Whoever holds them decides what readers take for a board."""

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest, message_to_sign
from fedboard.common.boards.ed25519_keys import read_private
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.roots import BOARDS, Root
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.protection import Protection, protection_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedBoard:
    """A board whose certificate was recomputed here; nothing else is ever signed.

    Guarantee: its releases have noise that no seed reproduces, or simulations were asked for.
    Not guaranteed: that nothing else was published.
    """

    board: Board
    simulation: bool = False
    """Whether a board whose noise can be reproduced from its seed may be signed, marked as what it is."""
    protection: Protection = field(init=False)
    """Worked out from the releases that the certificate lists."""

    def __post_init__(self) -> None:
        """Recompute the certificate.

        Raises:
            InputError: the board holds data and carries no certificate that can be read.
            PrivacyError: the certificate is of another board, does not hold, or the noise is seeded and simulations
                were not asked for.
        """
        found = _protection(self.board)
        if found is Protection.SIMULATION and not self.simulation:
            raise PrivacyError(
                f"version {self.board.version} of the board is a simulation: its noise can be reproduced from its "
                "seed. It is not signed. Make boards for readers with secure noise, or sign it marked as what it "
                "is: --simulation, or privacy.seed in fleet.toml"
            )
        object.__setattr__(self, "protection", found)


def _protection(board: Board) -> Protection:
    if board.certificate is None:
        if board.version == 0:
            return Protection.NO_DATA
        raise InputError(
            f"version {board.version} of the board carries no certificate, so nothing says what its noise is; it "
            "is not signed"
        )
    certificate = Certificate.from_dict(dict(board.certificate))
    if certificate.board_digest != board.digest:
        raise PrivacyError(
            f"version {board.version} of the board carries the certificate of another one; it is not signed"
        )
    failed = [finding for finding in certificate.verify() if not finding.passed]
    if failed:
        raise PrivacyError(
            f"the certificate of version {board.version} of the board does not hold ({failed[0].check}: "
            f"{failed[0].detail}); it is not signed"
        )
    found = protection_of(certificate.releases)
    if board.version and found is Protection.NO_DATA:
        raise PrivacyError(
            f"the certificate of version {board.version} of the board lists no release; it is not signed"
        )
    return found


class SigningKey:
    """An Ed25519 private key, or several where a root asks for the signatures of more than one."""

    def __init__(self, key: Ed25519PrivateKey, *more: Ed25519PrivateKey) -> None:
        self._key, self._more = key, more
        self.public = PinnedKey(key.public_key())
        self.id = self.public.id

    @classmethod
    def read(cls, path: Path, *more: Path) -> "SigningKey":
        """Read PEM files that only their owner can read.

        Raises:
            InputError: no Ed25519 private key there, or others can read it.
        """
        return cls(*(read_private(each, signed="boards") for each in (path, *more)))

    def require_listed(self, root: Root) -> None:
        """Refuse keys that a root does not name, or too few of those that it names.

        Raises:
            InputError: readers would refuse what they sign.
        """
        role = root.roles[BOARDS]
        own = {key.public_key().public_bytes_raw() for key in (self._key, *self._more)}
        if own - set(role.keys):
            raise InputError(
                f"version {root.version} of the root does not name the signing key {self.id}: it was replaced, and "
                "readers refuse what it signs; give the key that took its place"
            )
        if len(own) < role.threshold:
            raise InputError(
                f"version {root.version} of the root asks for the signatures of {role.threshold} keys, and "
                f"{len(own)} signs here; give the others too"
            )

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
        message = message_to_sign(content)
        signatures = tuple(key.sign(message).hex() for key in (self._key, *self._more))
        return SignedManifest(content=content.decode(), signatures=signatures)


def _states(manifest: Manifest, checked: CheckedBoard) -> bool:
    board = checked.board
    certificate = board.certificate or {}
    return (
        (manifest.version, manifest.board_digest, manifest.previous_digest)
        == (board.version, board.digest, board.previous_digest)
        and (manifest.certificate_digest, manifest.ledger_head, manifest.releases)
        == (certificate.get("digest"), certificate.get("ledger_head"), len(certificate.get("releases", ())))
        and manifest.protection is checked.protection
    )
