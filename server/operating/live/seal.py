"""Whether the newest board is what it says, checked by the process that shows it; what is left open is said."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.common.board import Board
from fedboard.common.boards.layout import root_name
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import Protection, protection_of
from fedboard.server.operating.live.run_files import RunFiles
from fedboard.server.publication import BoardStore, require_same_history

if TYPE_CHECKING:  # it takes long to import, and most runs are signed by nobody
    from fedboard.common.boards.board_signature import PinnedKey
    from fedboard.common.boards.chain import Link

PASSED, FAILED, OPEN = "passed", "failed", "open"
_SHARE = 1 / 2000
"""Of one processor, that checking may take on average."""
Check = dict[str, str]
"""``check``, ``state`` and ``told``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A board that was opened, and its certificate; neither is checked by that."""

    board: Board
    certificate: Certificate
    size: int
    """Bytes of its file."""


@dataclass(slots=True)
class Sealing:
    """Opens each new board, and checks it when its share of the processor allows."""

    files: RunFiles
    key: "PinnedKey | None" = None
    """Of who signs the boards, if it is known."""
    held: Held | None = None
    """The newest board."""
    _checked: tuple[Board, list[Check]] | None = None
    """The board that was checked last, and what came of it."""
    _digests: dict[int, str] = field(default_factory=dict)
    _next: float = 0.0

    def look(self) -> None:
        """Open the newest board, if it is another one.

        Raises:
            FedboardError: it cannot be read.
        """
        store = BoardStore(self.files.boards)
        versions = store.versions()
        if not versions:
            self.held = None
        elif self.held is None or self.held.board.version != versions[-1]:
            board = store.load(versions[-1])
            certificate = Certificate.from_dict(dict(board.certificate or {}))
            size = store.path(versions[-1]).stat().st_size
            self.held = Held(board=board, certificate=certificate, size=size)

    @property
    def is_due(self) -> bool:
        """Whether the newest board is not checked yet, and the last check is paid for or this board is the last."""
        if self.held is None or self._is_checked(self.held.board):
            return False
        rounds = self.held.certificate.rounds
        is_last = rounds is not None and rounds.made + rounds.lost == rounds.planned
        return is_last or time.monotonic() >= self._next

    def _is_checked(self, board: Board) -> bool:
        return self._checked is not None and self._checked[0].version == board.version

    def check(self, ledger: Ledger | None) -> None:
        """Check the newest board."""
        if self.held is None:
            return
        began = time.thread_time()
        board, certificate = self.held.board, self.held.certificate
        self._digests[board.version] = board.digest
        checks = [
            _bytes(board, certificate),
            self._chain(board),
            _paid(board, certificate, ledger),
            _promise(certificate, board.version),
            _noise(certificate, board.version),
        ]
        self._checked = (board, checks)
        self._next = time.monotonic() + (time.thread_time() - began) / _SHARE

    def told(self) -> dict[str, Any] | None:
        """The newest board, and what was checked last, which may be one before it; None where there is no board."""
        if self.held is None:
            return None
        newest, checked, checks = self.held.board, None, list[Check]()
        if self._checked is not None:
            checked, checks = self._checked[0], [*self._checked[1], self._signature(self._checked[0])]
        return {
            "version": newest.version,
            "task": newest.task,
            "items": newest.catalogue.n_items,
            "bytes": self.held.size,
            "checked": None if checked is None else checked.version,
            "digest": None if checked is None else checked.digest,
            "checks": checks,
        }

    def _chain(self, board: Board) -> Check:
        before = self._digest(board.version - 1)
        if board.version == 0:
            return _said("chain", PASSED, "It is the first board, which holds no data.")
        if before is None:
            return _said("chain", OPEN, "The board before it is not there.")
        if before != board.previous_digest:
            return _said("chain", FAILED, "It does not continue the board before it.")
        return _said("chain", PASSED, f"It names the digest of board {board.version - 1}.")

    def _digest(self, version: int) -> str | None:
        if version not in self._digests and version >= 0:
            try:
                self._digests[version] = BoardStore(self.files.boards).load(version).digest
            except FedboardError:
                return None
        return self._digests.get(version)

    def _signature(self, board: Board) -> Check:
        mirror = self.files.mirror
        link = None if mirror is None else _link_of(mirror, board.version)
        if mirror is None or link is None:
            return _said("signature", OPEN, "Nobody has signed it here.")
        if self.key is None:
            return _said(
                "signature", OPEN, "It is signed; without the public key (--key) nobody knows by whom."
            )
        return _signed(link, self.key.followed(lambda version: mirror / root_name(version)), board)


def _bytes(board: Board, certificate: Certificate) -> Check:
    if certificate.board_digest == board.digest:
        return _said(
            "bytes", PASSED, "Its digest was computed from the file; its certificate names the same."
        )
    return _said("bytes", FAILED, "Its certificate is for another board.")


def _paid(board: Board, certificate: Certificate, ledger: Ledger | None) -> Check:
    if ledger is None:
        return _said("ledger", OPEN, "There is no ledger here.")
    try:
        require_same_history(board, ledger)
    except FedboardError:
        return _said("ledger", FAILED, "The ledger is not the one that paid for it.")
    releases = len(certificate.releases)
    told = f"The ledger's chain is whole, holds the head that it names and its {releases} releases."
    return _said("ledger", PASSED, told)


def _link_of(mirror: Path, version: int) -> "Link | None":
    """The newest manifest of a version."""
    from fedboard.server.publishing.mirror_files import Mirror

    try:
        return Mirror(mirror).of_version(version)
    except FedboardError:
        return None


def _signed(link: "Link", key: "PinnedKey", board: Board) -> Check:
    try:
        found = key.open(link.signed)
    except (FedboardError, OSError):
        return _said("signature", FAILED, "What is signed there is not signed by this key.")
    if (found.board_digest, found.version) != (board.digest, board.version):
        return _said("signature", FAILED, "Another board is signed under this number.")
    return _said("signature", PASSED, f"Ed25519, key {key.id[:16]}, signed {found.published}.")


def _promise(certificate: Certificate, version: int) -> Check:
    if version and not certificate.composition.exact:
        told = "To recompute it takes loss distributions: fedboard certificate verify does it."
        return _said("promise", OPEN, told)
    failed = [finding for finding in certificate.verify() if not finding.passed]
    if failed:
        return _said("promise", FAILED, f"Its certificate does not hold: {failed[0].check}.")
    told = "Every number of its certificate was recomputed from its releases and its plan."
    return _said("promise", PASSED, told)


def _noise(certificate: Certificate, version: int) -> Check:
    found = protection_of(certificate.releases)
    if found is Protection.NO_DATA and version:
        return _said("noise", FAILED, "Its certificate lists no release.")
    states = {Protection.PRIVATE: PASSED, Protection.SIMULATION: FAILED}
    told = found.verdict[0].upper() + found.verdict[1:]
    return _said("noise", states.get(found, OPEN), f"{told}.")


def _said(check: str, state: str, told: str) -> Check:
    return {"check": check, "state": state, "told": told}
