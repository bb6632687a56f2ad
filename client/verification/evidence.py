"""What there is to check: the certificate in a run directory, in a board, or in a file of its own; and what came of
it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedboard.client.boards.cache import board_file
from fedboard.client.private_files import is_json
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate, Finding
from fedboard.common.errors import InputError
from fedboard.common.files import read_file
from fedboard.common.protection import Protection


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A certificate and what lies beside it."""

    certificate: Certificate
    board: Board | None = None
    """The newest board, where there is one."""
    boards: tuple[Path, ...] = ()
    """All boards of a run, oldest first."""
    ledger: Path | None = None
    """The ledger of a run."""
    population: Path | None = None
    """The account that the run books in, where it is there."""
    run: bool = False
    """Whether this is a run directory, where a ledger belongs."""
    finished: bool = True
    """False for a run without its own certificate.json yet."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verification:
    """What was checked, and what came of it. ``bool()`` is ``private``: it holds, and nobody can remove the noise.

    Not guaranteed: that nothing else was published, or that the code ran as stated.
    """

    findings: tuple[Finding, ...]
    protection: Protection
    """What the releases, or all that is booked, say of the noise; of an account, that of all its runs."""
    what: str
    """What was at hand."""
    ledger: dict[str, Any] | None = None
    """Rows, head, budget and cost, JSON-able; None where no ledger could be read."""
    notes: tuple[str, ...] = ()
    """What was not at hand, a sentence each."""
    certified: bool = True
    """Whether somebody promises something; a ledger alone is a record, in which nothing may be booked yet."""

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What did not pass, or could not be looked at."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def holds(self) -> bool:
        """Whether every check passed."""
        return not self.failed

    @property
    def private(self) -> bool:
        """Whether it holds and no seed reproduces any of the noise; False for every simulation."""
        return self.holds and self.protection is Protection.PRIVATE

    @property
    def revealed(self) -> bool:
        """Whether it is not shown that all noise is such that nobody can take it out again."""
        fine = {Protection.PRIVATE} if self.certified else {Protection.PRIVATE, Protection.NO_DATA}
        return self.protection not in fine

    def __bool__(self) -> bool:
        """As ``private``."""
        return self.private

    def __repr__(self) -> str:
        """One line; what failed on lines of its own."""
        if self.failed:
            lines = [f"  FAILED  {finding.check}: {finding.detail}" for finding in self.failed]
            head = f"{len(self.failed)} of {len(self.findings)} checks failed: do not rely on {self.what}"
            return "\n".join([f"<Verification: NOT PROVEN: {head}>", *lines])
        return (
            f"<Verification: all {len(self.findings)} checks passed: {self.what}; {self.protection.verdict}>"
        )


def read_evidence(target: Path) -> Evidence:
    """Read the certificate at a place.

    Raises:
        InputError: no certificate there, or one that cannot be read.
    """
    if target.is_dir():
        return _of_run(target)
    if is_json(target):
        return Evidence(certificate=_from_file(target))
    board = Board.load(target)
    return Evidence(certificate=_of_board(board, target), board=board)


def _of_run(run: Path) -> Evidence:
    newest = board_file(run)
    board = Board.load(newest)
    own, ledger = run / "certificate.json", run / "ledger.sqlite"
    return Evidence(
        certificate=_from_file(own) if own.exists() else _of_board(board, newest),
        board=board,
        run=True,
        boards=tuple(sorted(newest.parent.glob("board-*.board"), key=lambda path: path.name)),
        ledger=ledger if ledger.exists() else None,
        population=population_of(run),
        finished=own.exists(),
    )


def population_of(run: Path) -> Path | None:
    """The account that a run's configuration names, where it is there."""
    try:
        named = json.loads((run / "config.json").read_text(encoding="utf-8"))["privacy"]["population"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Path(named) if isinstance(named, str) and Path(named).is_file() else None


def _from_file(path: Path) -> Certificate:
    try:
        return Certificate.from_json(read_file(path))
    except OSError as error:
        raise InputError(f"{path}: no certificate can be read there ({error.strerror})") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _of_board(board: Board, path: Path) -> Certificate:
    if board.certificate is None:
        raise InputError(f"{path}: this board carries no certificate")
    try:
        return Certificate.from_dict(dict(board.certificate))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
