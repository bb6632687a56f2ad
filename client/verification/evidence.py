"""What there is to check: the certificate in a run directory, in a board, or in a file of its own."""

import json
from dataclasses import dataclass
from pathlib import Path

from fedboard.client.boards.cache import board_file
from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.files import open_file, read_file


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


def read_evidence(target: Path) -> Evidence:
    """Read the certificate at a place.

    Raises:
        InputError: no certificate there, or one that cannot be read.
    """
    if target.is_dir():
        return _of_run(target)
    try:
        with open_file(target, largest=None) as stream:
            is_json = stream.read(64).lstrip()[:1] == b"{"
    except OSError as error:
        raise InputError(f"{target}: no certificate can be read there ({error.strerror})") from error
    if is_json:
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
