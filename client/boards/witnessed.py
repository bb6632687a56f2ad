"""The log of boards as a reader sees it: what enough witnesses cosigned, and never less or other than before."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.log.entries import BoardEntry
from fedboard.common.boards.log.history import History, HistoryError
from fedboard.common.boards.log.notes import NoteError
from fedboard.common.boards.log.policy import WitnessPolicy
from fedboard.common.boards.log.proofs import LogProof
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.files import write_atomically

EVIDENCE = "log.contradiction.tlog-proof"
"""Where a proof is kept that contradicts what was seen: the log signed both, so anybody can be shown them."""


_LEDGER_ID = re.compile("-[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class WitnessedLog:
    """One run's log, in a folder of boards that remembers it.

    Guarantee: as long as no more witnesses lie than the policy bears, everybody whose policy names the same log and
    witnesses is shown the same board for a version here, or none; a log that is older than the one seen before,
    that does not continue it, or that breaks a rule (``History``) is refused.
    Not guaranteed: that the boards are right; that there is no newer one.
    """

    policy: WitnessPolicy
    folder: Path | None = None
    """Remembers the largest log that was seen; None: nothing is remembered."""

    def take(self, content: bytes) -> LogProof:
        """Verify what a source says was logged, and remember it.

        Args:
            content: from anybody.

        Raises:
            FeedRefusedError: ``not-witnessed``, ``split-view`` or ``rollback``.
        """
        proof = self._signed(content)
        seen = self._remembered()
        if seen is not None:
            self._require_continued(seen, proof, content)
        if not self._suffices(proof):
            raise FeedRefusedError(FeedCode.NOT_WITNESSED)
        if self.folder is not None:
            write_atomically(self.folder / LOG_PROOF, content)
        return proof

    def seen(self) -> LogProof | None:
        """The largest log that was seen here, where it suffices today; it is verified again."""
        seen = self._remembered()
        return seen if seen is not None and self._suffices(seen) else None

    def has(self, digest: str) -> bool:
        """Whether the log that was seen has an exact board with this digest."""
        seen = self.seen()
        return seen is not None and any(entry.board == digest for entry in seen.history.entries)

    def shows(self, board: Board, *, run: str | None = None) -> bool:
        """Whether the log that was seen has this board, of this run, as the one of its version, and its ledger.

        Args:
            board: exact, or an approximation of one that was verified.
            run: as a server names it to devices, perhaps with its ledger's id behind; None: that of the log.
        """
        seen = self.seen()
        entry = None if seen is None else seen.history.of_version(board.version)
        if seen is None or entry is None or (run is not None and entry.run not in (run, run_stem(run))):
            return False
        if (board.approximates or board.digest) != entry.board:
            return False
        try:
            require_ledger(seen.history, board)
        except FeedRefusedError:
            return False
        return True

    def require_shown(self, board: Board, place: Path) -> None:
        """Refuse a board that is not in the log that was seen.

        Raises:
            InputError: it is not.
        """
        if not self.shows(board):
            raise InputError(
                f"{place}: no log of boards that enough witnesses have cosigned shows version {board.version} of "
                "this board here; fetch it with `fedboard board fetch ... --witnesses`"
            )

    def _signed(self, content: bytes) -> LogProof:
        """What the log itself says, with whatever cosignatures."""
        try:
            proof = LogProof.from_bytes(content)
            proof.require_sound()
            if proof.checkpoint.origin != self.policy.log.name or not proof.note.signed_by(self.policy.log):
                raise NoteError("not of this log")
        except HistoryError as error:
            raise FeedRefusedError(FeedCode.SPLIT_VIEW) from error
        except ValueError as error:
            raise FeedRefusedError(FeedCode.NOT_WITNESSED) from error
        return proof

    def _suffices(self, proof: LogProof) -> bool:
        try:
            return self.policy.suffices(proof.note)
        except NoteError:
            return False

    def _remembered(self) -> LogProof | None:
        """What was taken before; of another log nothing counts."""
        path = None if self.folder is None else self.folder / LOG_PROOF
        if path is None or not path.exists():
            return None
        try:
            return self._signed(path.read_bytes())
        except FeedRefusedError:
            return None

    def _require_continued(self, seen: LogProof, proof: LogProof, content: bytes) -> None:
        before, now = seen.history.entries, proof.history.entries
        shorter = min(len(before), len(now))
        if before[:shorter] != now[:shorter]:
            if self.folder is not None:
                write_atomically(self.folder / EVIDENCE, content)
            raise FeedRefusedError(FeedCode.SPLIT_VIEW)
        if len(now) < len(before):
            raise FeedRefusedError(FeedCode.ROLLBACK)


def run_stem(run: str) -> str:
    """The public name of a run, without the id of its ledger, which a server puts behind it for devices."""
    return _LEDGER_ID.sub("", run)


def logged_entry(history: History, signed: SignedManifest, manifest: Manifest) -> BoardEntry:
    """What the log says of a manifest.

    Args:
        history: of a log that suffices.
        signed: the manifest as it came.
        manifest: the same, verified.

    Raises:
        FeedRefusedError: ``not-witnessed`` where it was not logged, ``split-view`` where another board was.
    """
    logged = history.of_version(manifest.version)
    if logged is not None and logged.board != manifest.board_digest:
        raise FeedRefusedError(FeedCode.SPLIT_VIEW)
    place = history.index_of(hashlib.sha256(signed.content.encode()).hexdigest())
    if place is None:
        raise FeedRefusedError(FeedCode.NOT_WITNESSED)
    entry = history.entries[place]
    if (entry.run, entry.version, entry.board) != (manifest.run, manifest.version, manifest.board_digest):
        raise FeedRefusedError(FeedCode.SPLIT_VIEW)
    return entry


def require_ledger(history: History, board: Board) -> None:
    """Hold the ledger that a board's certificate states against all that was logged of it.

    A board of version 0 holds no data: a question about it brings no certificate, and no ledger is behind it.

    Raises:
        FeedRefusedError: ``ledger-changed``.
    """
    if board.version == 0 and board.certificate is None:
        return
    try:
        history.require_ledger(board.version, board.certificate)
    except (ValueError, TypeError, PrivacyError) as error:
        raise FeedRefusedError(FeedCode.LEDGER_CHANGED) from error
