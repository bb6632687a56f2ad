"""Whether the newest board is what it says, checked by the process that shows it; what is left open is said."""

from dataclasses import dataclass

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import Protection, protection_of
from fedboard.common.reports.wording import capital
from fedboard.server.operating.run_files import RunFiles
from fedboard.server.publication import BoardStore, require_same_history

PASSED, FAILED, OPEN = "passed", "failed", "open"
_NAMES = {
    "bytes": "Every byte",
    "chain": "The chain of boards",
    "ledger": "The ledger that paid for it",
    "promise": "The promise, recomputed",
    "noise": "The noise",
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
    """The newest board, and what was checked of it."""

    board: Board
    certificate: Certificate
    size: int
    """Bytes of its file."""
    checks: tuple[Check, ...]

    @property
    def broken(self) -> list[Check]:
        """Checks that failed, but that of the noise: it is what it says, and private or not."""
        return [one for one in self.checks if one.state == FAILED and one.kind != "noise"]

    @property
    def verdict(self) -> tuple[str, str]:
        """State and words for all checks together."""
        if self.broken:
            return FAILED, "its seal is broken"
        if any(one.state == FAILED for one in self.checks):
            return FAILED, "not private"
        if all(one.state == PASSED for one in self.checks):
            return PASSED, "sealed and private"
        return OPEN, "no check failed, not all were possible"


@dataclass(slots=True)
class Sealing:
    """Opens and checks each new board."""

    files: RunFiles
    seal: Seal | None = None
    """Of the newest board; None where there is none."""

    def newest(self) -> int | None:
        """The version of the newest board that is there."""
        return max(BoardStore(self.files.boards).versions(), default=None)

    def look(self, version: int | None, ledger: Ledger | None) -> None:
        """Open a board and check it, if it is another one.

        Raises:
            FedboardError: it cannot be read.
        """
        if version is None:
            self.seal = None
        elif self.seal is None or self.seal.board.version != version:
            store = BoardStore(self.files.boards)
            board, size = store.load(version), store.path(version).stat().st_size
            certificate = Certificate.from_dict(dict(board.certificate or {}))
            checks = (
                Check("bytes", *_bytes(board, certificate)),
                Check("chain", *self._chain(board, store)),
                Check("ledger", *_paid(board, certificate, ledger)),
                Check("promise", *_promise(certificate, version)),
                Check("noise", *_noise(certificate, version)),
            )
            self.seal = Seal(board=board, certificate=certificate, size=size, checks=checks)

    def _chain(self, board: Board, store: BoardStore) -> tuple[str, str]:
        version = board.version - 1
        if version < 0:
            return PASSED, "It is the first board, which holds no data."
        try:
            seen = None if self.seal is None else self.seal.board
            before = seen if seen is not None and seen.version == version else store.load(version)
        except FedboardError:
            return OPEN, "The board before it is not there."
        if before.digest != board.previous_digest:
            return FAILED, "It does not continue the board before it."
        return PASSED, f"It names the digest of board {version}."


def _bytes(board: Board, certificate: Certificate) -> tuple[str, str]:
    if certificate.board_digest == board.digest:
        return PASSED, "Its digest was computed from the file; its certificate names the same."
    return FAILED, "Its certificate is for another board."


def _paid(board: Board, certificate: Certificate, ledger: Ledger | None) -> tuple[str, str]:
    if ledger is None:
        return OPEN, "There is no ledger here."
    try:
        require_same_history(board, ledger)
    except FedboardError:
        return FAILED, "The ledger is not the one that paid for it."
    releases = len(certificate.releases)
    return PASSED, f"The ledger's chain is whole, holds the head that it names and its {releases} releases."


def _promise(certificate: Certificate, version: int) -> tuple[str, str]:
    if version and not certificate.composition.exact:
        return OPEN, "To recompute it takes loss distributions: fedboard certificate verify does it."
    failed = [finding for finding in certificate.verify() if not finding.passed]
    if failed:
        return FAILED, f"Its certificate does not hold: {failed[0].check}."
    return PASSED, "Every number of its certificate was recomputed from its releases and its plan."


def _noise(certificate: Certificate, version: int) -> tuple[str, str]:
    found = protection_of(certificate.releases)
    if found is Protection.NO_DATA and version:
        return FAILED, "Its certificate lists no release."
    states = {Protection.PRIVATE: PASSED, Protection.SIMULATION: FAILED}
    return states.get(found, OPEN), f"{capital(found.verdict)}."
