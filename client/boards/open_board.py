"""Finding the board that somebody means: a board file, or the newest board of a run or of a cache."""

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fedboard.client.boards.cache import SEEN, require_digest
from fedboard.common.board import Board
from fedboard.common.boards.layout import LATEST
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.validity import Clock, utc_seconds, utc_text
from fedboard.common.errors import FedboardError, InputError

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses

_log = logging.getLogger(__name__)

_FIRST_LEARNT_VERSION = 2
"""Board 0 holds no data and board 1 only means and counts; item factors are learnt from there on."""


def board_file(place: Path) -> Path:
    """The board file at a place: the file itself, or the newest board of a run directory.

    Raises:
        InputError: nothing is there, or a directory without boards, or a mirror.
    """
    first, _, rest = str(place).partition(":/")
    if rest or (place / LATEST).is_file():
        source = f"{first}://{rest}" if rest else place
        raise InputError(
            f"{source}: boards of a mirror are verified as they are fetched: fedboard board fetch {source} --key "
            "KEY --to FOLDER, then take FOLDER as the board"
        )
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


def open_board(place: Path, *, witnesses: "Witnesses | None" = None) -> Board:
    """Open a board whose items are learnt and whose content is what its name or its certificate states.

    One that was fetched is opened also where what was signed about it has expired, which is said in a warning: it
    was right when it came, and who only reads it asks nobody.

    Args:
        place: a board file, or a run directory or cache, of which the newest board is taken.
        witnesses: who must have cosigned the board, as it was fetched into this folder; None: nobody.

    Raises:
        InputError: no board there, damaged, changed, not witnessed, or from before the first learning round.
    """
    path = board_file(place)
    board = Board.load(path)
    require_digest(path, board)
    if witnesses is not None:
        from fedboard.client.boards.seen import (
            CosignedBoards,  # brings cryptography, which others can do without
        )

        CosignedBoards(witnesses, path.parent).require_shown(board, path)
    if (notice := out_of_date(path.parent)) is not None:
        _log.warning("%s", notice)
    if board.version < _FIRST_LEARNT_VERSION:
        raise InputError(
            f"{path}: version {board.version} of this board has learnt nothing about the items yet; "
            "take a later board of the run"
        )
    return board


def out_of_date(cache: Path, *, clock: Clock = time.time) -> str | None:
    """What to say of boards that were fetched where the newest manifest that was seen with them has expired.

    Args:
        cache: the folder that they are in.
        clock: of this machine.

    Returns:
        None where it has not, and for boards that are no reader's.
    """
    if not (cache / SEEN).exists():
        return None
    from fedboard.common.boards.board_signature import SignedManifest

    try:
        signed = SignedManifest.from_bytes((cache / SEEN).read_bytes())
        seen = Manifest.from_bytes(signed.content.encode())
    except (OSError, FedboardError):
        return None
    if seen.is_current(clock):
        return None
    if clock() < utc_seconds(seen.signed):
        now = utc_text(clock())
        return f"{cache}: the newest board was signed at {seen.signed}; set this clock, which says {now}"
    return (
        f"{cache}: the newest board that was seen was good until {seen.expires}, and nothing newer came: fetch "
        "again. If it stays so, its publisher has stopped, or somebody keeps newer boards back"
    )
