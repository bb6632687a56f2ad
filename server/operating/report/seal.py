"""Whether the newest board is what it says, checked by the process that shows it; what is left open is said."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fedboard.common.board import Board
from fedboard.common.boards.layout import root_name
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import Protection, protection_of
from fedboard.server.operating.report.run_files import RunFiles
from fedboard.server.publication import BoardStore, require_same_history

if TYPE_CHECKING:  # it takes long to import, and most runs are signed by nobody
    from fedboard.common.boards.board_signature import PinnedKey
    from fedboard.common.boards.manifest import Link

PASSED, FAILED, OPEN = "passed", "failed", "open"
_SHARE = 1 / 2000
"""Of one processor, that checking may take on average."""
_NAMES = {
    "bytes": "Every byte",
    "chain": "The chain of boards",
    "ledger": "The ledger that paid for it",
    "promise": "The promise, recomputed",
    "noise": "The noise",
    "signature": "Signature",
}
_SPOKEN = {PASSED: "passed", FAILED: "failed", OPEN: "not shown"}


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, and what came of it."""

    kind: str
    """One of ``_NAMES``."""
    state: str
    told: str

    @property
    def name(self) -> str:
        """For people."""
        return _NAMES[self.kind]

    @property
    def spoken(self) -> str:
        """The state, for people."""
        return _SPOKEN[self.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """The newest board, and what was checked last, which may be one before it."""

    newest: Board
    size: int
    """Bytes of its file."""
    checked: Board | None
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> tuple[str, str]:
        """State and words for all checks together."""
        failed = [one.kind for one in self.checks if one.state == FAILED]
        if not self.checks:
            return OPEN, "not checked yet"
        if any(kind != "noise" for kind in failed):
            return FAILED, "its seal is broken"
        if failed:
            return FAILED, "not private"
        if all(one.state == PASSED for one in self.checks):
            return PASSED, "sealed and private"
        return OPEN, "no check failed, not all were possible"


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

    def told(self) -> Seal | None:
        """None where there is no board."""
        if self.held is None:
            return None
        checked, checks = None, list[Check]()
        if self._checked is not None:
            checked, checks = self._checked[0], [*self._checked[1], self._signature(self._checked[0])]
        return Seal(newest=self.held.board, size=self.held.size, checked=checked, checks=tuple(checks))

    def _chain(self, board: Board) -> Check:
        before = self._digest(board.version - 1)
        if board.version == 0:
            return Check("chain", PASSED, "It is the first board, which holds no data.")
        if before is None:
            return Check("chain", OPEN, "The board before it is not there.")
        if before != board.previous_digest:
            return Check("chain", FAILED, "It does not continue the board before it.")
        return Check("chain", PASSED, f"It names the digest of board {board.version - 1}.")

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
            return Check("signature", OPEN, "Nobody has signed it here.")
        if self.key is None:
            return Check(
                "signature", OPEN, "It is signed; without the public key (--key) nobody knows by whom."
            )
        return _signed(link, self.key.followed(lambda version: mirror / root_name(version)), board)


def _bytes(board: Board, certificate: Certificate) -> Check:
    if certificate.board_digest == board.digest:
        return Check(
            "bytes", PASSED, "Its digest was computed from the file; its certificate names the same."
        )
    return Check("bytes", FAILED, "Its certificate is for another board.")


def _paid(board: Board, certificate: Certificate, ledger: Ledger | None) -> Check:
    if ledger is None:
        return Check("ledger", OPEN, "There is no ledger here.")
    try:
        require_same_history(board, ledger)
    except FedboardError:
        return Check("ledger", FAILED, "The ledger is not the one that paid for it.")
    releases = len(certificate.releases)
    told = f"The ledger's chain is whole, holds the head that it names and its {releases} releases."
    return Check("ledger", PASSED, told)


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
        return Check("signature", FAILED, "What is signed there is not signed by this key.")
    if (found.board_digest, found.version) != (board.digest, board.version):
        return Check("signature", FAILED, "Another board is signed under this number.")
    return Check("signature", PASSED, f"Ed25519, key {key.id[:16]}, signed {found.published}.")


def _promise(certificate: Certificate, version: int) -> Check:
    if version and not certificate.composition.exact:
        told = "To recompute it takes loss distributions: fedboard certificate verify does it."
        return Check("promise", OPEN, told)
    failed = [finding for finding in certificate.verify() if not finding.passed]
    if failed:
        return Check("promise", FAILED, f"Its certificate does not hold: {failed[0].check}.")
    told = "Every number of its certificate was recomputed from its releases and its plan."
    return Check("promise", PASSED, told)


def _noise(certificate: Certificate, version: int) -> Check:
    found = protection_of(certificate.releases)
    if found is Protection.NO_DATA and version:
        return Check("noise", FAILED, "Its certificate lists no release.")
    states = {Protection.PRIVATE: PASSED, Protection.SIMULATION: FAILED}
    told = found.verdict[0].upper() + found.verdict[1:]
    return Check("noise", states.get(found, OPEN), f"{told}.")
