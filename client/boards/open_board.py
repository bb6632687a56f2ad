"""Finding the board that somebody means: a board file, or the newest board of a run or of a cache."""

from pathlib import Path

from fedboard.client.boards.cache import require_digest
from fedboard.client.boards.witnessed import WitnessedLog
from fedboard.common.board import Board
from fedboard.common.board_service.log.policy import WitnessPolicy
from fedboard.common.errors import InputError

_FIRST_LEARNT_VERSION = 2
"""Board 0 holds no data and board 1 only means and counts; item factors are learnt from there on."""


def board_file(place: Path) -> Path:
    """The board file at a place: the file itself, or the newest board of a run directory.

    Raises:
        InputError: nothing is there, or a directory without boards.
    """
    if not place.exists():
        raise InputError(f"{place}: no board can be read there (no such file or directory)")
    if not place.is_dir():
        return place
    # Version numbers are padded to one width, so the last name is the newest board.
    found = sorted(
        [*place.glob("board-*.board"), *place.glob("boards/board-*.board")], key=lambda path: path.name
    )
    if not found:
        raise InputError(f"{place}: no board in this directory; give a board file or the directory of a run")
    return found[-1]


def open_board(place: Path, *, witnesses: WitnessPolicy | None = None) -> Board:
    """Open a board whose items are learnt and whose content is what its name or its certificate states.

    Args:
        place: a board file, or a run directory or cache, of which the newest board is taken.
        witnesses: who must have seen the board in its run's log, as it was fetched into this folder; None: nobody.

    Raises:
        InputError: no board there, damaged, changed, not witnessed, or from before the first learning round.
    """
    path = board_file(place)
    board = Board.load(path)
    require_digest(path, board)
    if witnesses is not None:
        WitnessedLog(witnesses, path.parent).require_shown(board, path)
    if board.version < _FIRST_LEARNT_VERSION:
        raise InputError(
            f"{path}: version {board.version} of this board has learnt nothing about the items yet; "
            "take a later board of the run"
        )
    return board
