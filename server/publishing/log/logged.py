"""What is logged of a board before it is shown."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.log.entries import BoardEntry
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.errors import PrivacyError
from fedboard.common.files import stamp_of
from fedboard.server.publishing.log.log import BoardLog

_SAID_AGAIN = (
    *("run", "version", "board_digest", "previous_digest", "certificate_digest", "protection"),
    *("key_id", "files"),
)
"""What a manifest says of a board whenever it is signed."""


def signed_before(log: BoardLog, manifest: Manifest, key: PinnedKey) -> SignedManifest | None:
    """What was signed about this board before a process ended that had not shown it; None where nothing was.

    Args:
        log: may have kept it.
        manifest: as it would be signed now.
        key: signs.
    """
    content = log.kept(manifest.version)
    try:
        signed = None if content is None else SignedManifest.from_bytes(content)
        before = None if signed is None else key.open(signed)
    except FeedRefusedError:
        return None
    said = msgspec.structs.asdict(manifest)
    same = before is not None and all(getattr(before, name) == said[name] for name in _SAID_AGAIN)
    return signed if same else None


def log_board(log: BoardLog, signed: SignedManifest, board: Board, *, run: str) -> None:
    """Write down what was signed about a board, then its entry; durable on return.

    Raises:
        PrivacyError: the log says something else of this board, or of the ledger that paid for it.
    """
    log.keep(board.version, signed.to_bytes())
    log.add(_entry(signed, board, run=run), board.certificate)


def keep_up(log: BoardLog, version: int, path: Path, board: Callable[[], Board]) -> None:
    """Log a manifest that is shown, where it is not: from before there was a log, or signed again since.

    Args:
        log: of the run.
        version: of the board.
        path: of its manifest.
        board: gives it.

    Raises:
        PrivacyError: it is not of this board, or the log says something else of it.
    """
    stamp = stamp_of(path)
    if log.looked_at.get(version) == stamp:
        return
    signed = SignedManifest.from_bytes(path.read_bytes())
    if log.history.index_of(hashlib.sha256(signed.content.encode()).hexdigest()) is None:
        manifest, found = Manifest.from_bytes(signed.content.encode()), board()
        if manifest.board_digest != found.digest:
            raise PrivacyError(
                f"{path}: this is not the manifest of the board of version {version} of this run; it is not logged"
            )
        log.add(_entry(signed, found, run=manifest.run), found.certificate)
    log.forget(version)
    log.looked_at[version] = stamp


def _entry(signed: SignedManifest, board: Board, *, run: str) -> BoardEntry:
    return BoardEntry.of(
        signed.content.encode(),
        run=run,
        version=board.version,
        board=board.digest,
        certificate=board.certificate,
    )
