"""Signing boards into a mirror: a plain folder with everything that readers need, and nothing else."""

import time
from functools import partial
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.boards.layout import FILES, LOG_PROOF, MANIFESTS, manifest_name
from fedboard.common.boards.manifest import BoardFile, Manifest
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.files import write_atomically
from fedboard.common.keys.validity import Clock, utc_text
from fedboard.server.publication import BoardStore
from fedboard.server.publishing.checked_board import CheckedBoard
from fedboard.server.publishing.encodings import MOST_BASES, encoded
from fedboard.server.publishing.log.log import BoardLog
from fedboard.server.publishing.log.logged import keep_up, log_board, signed_before
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.publishing.upkeep.renewing import point_at, renew
from fedboard.server.publishing.upkeep.signers import USUAL_DAYS, Signer, chain_for

__all__ = ["Mirror", "publish_into"]


def publish_into(
    mirror: Mirror,
    boards: Path,
    *,
    key: SigningKey,
    run: str,
    simulation: bool = False,
    days: float = USUAL_DAYS,
    roots: Path | None = None,
    clock: Clock = time.time,
    log: BoardLog | None = None,
) -> list[int]:
    """Sign the boards of a folder that the mirror does not have yet, and again what is there where it is due (see
    ``renew``). One process may write a mirror at a time.

    Every new board's certificate is recomputed before anything is written: where one is refused, none is published.

    Files come before the manifest that names them, and ``latest.json`` is last: a reader, or a crash, never
    meets half a board.

    Args:
        mirror: of this run alone.
        boards: a ``BoardStore``'s folder; its files are complete under their names.
        key: signs.
        run: public name of the run, the same for all its boards.
        simulation: whether to sign boards whose noise can be reproduced from its seed, marked as what they are.
        days: how long a manifest is good; in [0.01, 3660].
        roots: folder of the root documents that say who may sign, which are published too; None: those that the
            mirror has, if any.
        clock: of this machine.
        log: where a board is written down before it is shown; what is shown already is caught up with, and
            cosignatures that were missing are asked for again.

    Returns:
        The versions that are new.

    Raises:
        InputError: a board is damaged, the mirror holds boards of another run or key, or the newest root has
            expired or does not name the key.
        PrivacyError: a board does not continue the one before it, its certificate does not hold, its noise is
            seeded and simulations were not asked for, or the log says something else of it.
    """
    for name in (FILES, MANIFESTS):
        (mirror.folder / name).mkdir(parents=True, exist_ok=True)
    signer = Signer(key=key, run=run, days=days, chain=chain_for(mirror.folder, roots), clock=clock)
    store, last = BoardStore(boards), renew(mirror, signer)
    new = [version for version in store.versions() if last is None or version > last.version]
    for checked in [_checked(store, version, simulation=simulation) for version in new]:
        last = _publish(mirror, store, checked, previous=last, signer=signer, log=log)
    if last is not None:
        point_at(mirror, last.version)
    if log is not None:
        _keep_up(mirror, store, log)
    return new


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
    signer: Signer,
    log: BoardLog | None,
) -> Manifest:
    board, version = checked.board, checked.board.version
    if previous and version == previous.version + 1 and board.previous_digest != previous.board_digest:
        raise PrivacyError(
            f"{store.path(version)}: this board does not continue version {previous.version}, which is published; "
            "it was not signed"
        )
    manifest = Manifest(
        run=signer.run,
        version=version,
        board_digest=board.digest,
        previous_digest=board.previous_digest,
        certificate_digest=(board.certificate or {}).get("digest"),
        protection=checked.protection,
        published=utc_text(signer.clock()),
        signed=utc_text(signer.clock()),
        expires=signer.expiry(),
        key_id=signer.key.id,
        files=_files(mirror, store, board),
    )
    signed = None if log is None else signed_before(log, manifest, signer.keys)
    signed = signed or signer.key.sign(manifest, checked)
    if log is not None:
        log_board(log, signed, board, run=signer.run)
        log.settle()
        log.show(mirror.folder / LOG_PROOF)
    write_atomically(mirror.folder / manifest_name(version), signed.to_bytes())
    return manifest


def _keep_up(mirror: Mirror, store: BoardStore, log: BoardLog) -> None:
    """Log what is shown and is not there, and ask again for what witnesses have not cosigned."""
    for version in mirror.versions():
        keep_up(log, version, mirror.folder / manifest_name(version), partial(store.load, version))
    log.settle()
    log.show(mirror.folder / LOG_PROOF)


def _files(mirror: Mirror, store: BoardStore, board: Board) -> tuple[BoardFile, ...]:
    earlier = [version for version in store.versions() if version < board.version][-MOST_BASES:]
    forms = encoded(store.path(board.version), bases={version: store.path(version) for version in earlier})
    for form in forms:
        place = mirror.file(form.file.sha256)
        if not place.exists():
            write_atomically(place, form.content)
    return tuple(form.file for form in forms)
