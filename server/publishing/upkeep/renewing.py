"""Signing again what is published: before it expires, and after a key was replaced.

Nothing of a board changes: its file is read again, its certificate recomputed, its manifest signed with new dates.
"""

import msgspec
import numpy as np

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.layout import LATEST
from fedboard.common.boards.manifest import Encoding, Manifest
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.keys.validity import utc_text
from fedboard.common.protection import Protection
from fedboard.server.publishing.checked_board import CheckedBoard
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.upkeep.signers import Signer


def renew(mirror: Mirror, signer: Signer, *, now: bool = False) -> Manifest | None:
    """Bring a mirror up to date: its roots, every manifest whose signatures readers no longer take, and the newest
    manifest where half of its time is over.

    All is worked out before anything is written, so that readers meet the new root and what it asks for together.

    Args:
        mirror: written by this process alone.
        signer: signs.
        now: whether the newest manifest is signed again in any case.

    Returns:
        The newest manifest; None where the mirror is empty.

    Raises:
        InputError: a manifest is of another run or key, or a board's file is missing or damaged.
        PrivacyError: a board's certificate does not hold.
    """
    versions, written = mirror.versions(), dict[int, SignedManifest]()
    newest = None if not versions else signer.own(mirror.signed(versions[-1]))
    if newest is not None:
        last, taken = newest
        if not taken:
            written |= _history(mirror, signer, versions[:-1])
        if now or not taken or signer.is_due(last):
            written[last.version] = _again(mirror, signer, last, newest=True)
    mirror.roots.take(list(signer.chain))
    for version, signed in written.items():
        write_atomically(mirror.manifest(version), signed.to_bytes())
    if newest is None:
        return None
    point_at(mirror, newest[0].version)
    return signer.own(mirror.signed(newest[0].version))[0]


def point_at(mirror: Mirror, version: int) -> None:
    """Make a version the newest one for readers."""
    content = mirror.manifest(version).read_bytes()
    latest = mirror.folder / LATEST
    if not latest.exists() or latest.read_bytes() != content:
        write_atomically(latest, content)


def _history(mirror: Mirror, signer: Signer, versions: list[int]) -> dict[int, SignedManifest]:
    """Earlier manifests whose keys were replaced, signed again as expired: nobody may show them as the newest."""
    found = {version: signer.own(mirror.signed(version)) for version in versions}
    return {
        version: _again(mirror, signer, manifest, newest=False)
        for version, (manifest, taken) in found.items()
        if not taken
    }


def _again(mirror: Mirror, signer: Signer, manifest: Manifest, *, newest: bool) -> SignedManifest:
    now = utc_text(signer.clock())
    renewed = msgspec.structs.replace(
        manifest,
        signed=now,
        expires=signer.expiry() if newest else now,
        renewal=manifest.renewal + 1,
        key_id=signer.key.id,
    )
    board = _board(mirror, manifest)
    simulation = (
        manifest.protection is Protection.SIMULATION
    )  # which somebody asked for when it was first signed
    return signer.key.sign(renewed, CheckedBoard(board=board, simulation=simulation))


def _board(mirror: Mirror, manifest: Manifest) -> Board:
    file = manifest.file(Encoding.EXACT)
    place = None if file is None else mirror.file(file.sha256)
    if file is None or place is None or not place.exists():
        raise InputError(
            f"{mirror.folder}: the board file of version {manifest.version} is not there, and what is not seen is "
            "not signed; copy the whole mirror, or sign the boards into a new folder"
        )
    board = Board.from_bytes(np.fromfile(place, dtype=np.uint8))
    if board.digest != manifest.board_digest:
        raise InputError(f"{place}: this is not the board of version {manifest.version}; it was changed")
    return board
