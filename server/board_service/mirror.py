"""Signing boards into a mirror: a plain folder with everything that readers need, and nothing else."""

from datetime import UTC, datetime
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.board_service.board_signature import SignedManifest
from fedboard.common.board_service.layout import FILES, LATEST, MANIFESTS, file_name, manifest_name
from fedboard.common.board_service.manifest import BoardFile, Manifest
from fedboard.common.board_service.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.files import write_atomically
from fedboard.server.board_service.checked_board import CheckedBoard
from fedboard.server.board_service.encodings import MOST_BASES, encoded
from fedboard.server.board_service.signing import SigningKey
from fedboard.server.publication import BoardStore


class Mirror:
    """A mirror's folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which may be missing or empty."""
        self.folder = folder

    def versions(self) -> list[int]:
        """Versions whose manifest is complete, ascending."""
        return sorted(int(path.stem) for path in (self.folder / MANIFESTS).glob("[0-9]*.json"))

    def signed(self, version: int) -> SignedManifest:
        """The manifest of a version.

        Raises:
            FileNotFoundError: it is not there.
            FeedRefusedError: the file is damaged.
        """
        return SignedManifest.from_bytes((self.folder / manifest_name(version)).read_bytes())

    def file(self, sha256: str) -> Path:
        """Where a file is."""
        return self.folder / file_name(sha256)


def publish_into(
    mirror: Mirror, boards: Path, *, key: SigningKey, run: str, simulation: bool = False
) -> list[int]:
    """Sign the boards of a folder that the mirror does not have yet. One process may write a mirror at a time.

    Every new board's certificate is recomputed before anything is written: where one is refused, none is published.

    Files come before the manifest that names them, and ``latest.json`` is last: a reader, or a crash, never
    meets half a board.

    Args:
        mirror: of this run alone.
        boards: a ``BoardStore``'s folder; its files are complete under their names.
        key: signs.
        run: public name of the run, the same for all its boards.
        simulation: whether to sign boards whose noise can be reproduced from its seed, marked as what they are.

    Returns:
        The versions that are new.

    Raises:
        InputError: a board is damaged, or the mirror holds boards of another run or key.
        PrivacyError: a board does not continue the one before it, its certificate does not hold, or its noise is
            seeded and simulations were not asked for.
    """
    for name in (FILES, MANIFESTS):
        (mirror.folder / name).mkdir(parents=True, exist_ok=True)
    store, known = BoardStore(boards), mirror.versions()
    last = _own(mirror.folder, mirror.signed(known[-1]), key=key, run=run) if known else None
    new = [version for version in store.versions() if last is None or version > last.version]
    for checked in [_checked(store, version, simulation=simulation) for version in new]:
        last = _publish(mirror, store, checked, previous=last, key=key, run=run)
    if last is not None:
        _point_at(mirror, last.version)
    return new


def _own(folder: Path, signed: SignedManifest, *, key: SigningKey, run: str) -> Manifest:
    try:
        manifest = key.public.open(signed)
    except FeedRefusedError as error:
        if error.code is FeedCode.OLD_FORMAT:
            raise InputError(
                f"{folder}: its manifests are of the format before, which does not say whether the noise is a "
                "simulation's; sign the boards again into a new folder (of a fleet: move the "
                "folder `mirror` of its state away)"
            ) from error
        raise InputError(
            "the mirror's boards are signed by another key, or damaged; sign with that key, or use another folder"
        ) from error
    if manifest.run != run:
        raise InputError(
            f"the mirror holds boards of the run {manifest.run!r}, not of {run!r}; use another folder"
        )
    return manifest


def _point_at(mirror: Mirror, version: int) -> None:
    content = (mirror.folder / manifest_name(version)).read_bytes()
    latest = mirror.folder / LATEST
    if not latest.exists() or latest.read_bytes() != content:
        write_atomically(latest, content)


def _checked(store: BoardStore, version: int, *, simulation: bool) -> CheckedBoard:
    board = store.load(version)
    if board.version != version:
        raise InputError(f"{store.path(version)}: this is version {board.version}")
    return CheckedBoard(board=board, simulation=simulation)


def _publish(
    mirror: Mirror,
    store: BoardStore,
    checked: CheckedBoard,
    *,
    previous: Manifest | None,
    key: SigningKey,
    run: str,
) -> Manifest:
    board, version = checked.board, checked.board.version
    if previous and version == previous.version + 1 and board.previous_digest != previous.board_digest:
        raise PrivacyError(
            f"{store.path(version)}: this board does not continue version {previous.version}, which is published; "
            "it was not signed"
        )
    manifest = Manifest(
        run=run,
        version=version,
        board_digest=board.digest,
        previous_digest=board.previous_digest,
        certificate_digest=(board.certificate or {}).get("digest"),
        protection=checked.protection,
        published=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        key_id=key.id,
        files=_files(mirror, store, board),
    )
    write_atomically(mirror.folder / manifest_name(version), key.sign(manifest, checked).to_bytes())
    return manifest


def _files(mirror: Mirror, store: BoardStore, board: Board) -> tuple[BoardFile, ...]:
    earlier = [version for version in store.versions() if version < board.version][-MOST_BASES:]
    forms = encoded(store.path(board.version), bases={version: store.path(version) for version in earlier})
    for form in forms:
        place = mirror.file(form.file.sha256)
        if not place.exists():
            write_atomically(place, form.content)
    return tuple(form.file for form in forms)
