"""Boards on the device: a cache by version and digest, and the board that somebody means.

A board of a cache is complete and unchanged, or not there at all.
"""

import contextlib
import logging
import os
import re
import time
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedboard.common.board import Board
from fedboard.common.boards.layout import LATEST, SEEN
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.validity import Clock, utc_seconds, utc_text
from fedboard.common.errors import FedboardError, InputError

if TYPE_CHECKING:
    from fedboard.common.boards.witnesses import Witnesses


_NAME = re.compile(r"board-(\d{4,9})-([0-9a-f]{64})\.board")
_LARGEST_CACHE = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedBoard:
    """A board that is in the cache. Public, like the board."""

    version: int
    digest: str
    path: Path
    n_bytes: int


class BoardCache:
    """A folder of boards of one run, newest wins, oldest go first where they take too much room.

    Guarantee: what ``load`` and ``newest`` return has the digest that its name says, recomputed from its
    content each time. Whoever puts a board in vouches for the digest: the downloader checks it against the signed
    manifest.
    Not guaranteed: that the newest one here is the newest one published.
    """

    def __init__(self, folder: Path, *, max_bytes: int = _LARGEST_CACHE) -> None:
        """Use a folder, which is made if it is missing.

        Args:
            folder: the place; ``fedboard recommend`` takes it in place of a board file too.
            max_bytes: of all boards together; the newest one stays whatever it takes.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # boards are public; who fetched them is not
        self.folder = folder
        self._max_bytes = max_bytes

    def boards(self) -> list[CachedBoard]:
        """What is there by name, oldest first; contents are not looked at."""
        found = []
        for path in self.folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match:
                size = path.stat().st_size
                found.append(CachedBoard(version=int(match[1]), digest=match[2], path=path, n_bytes=size))
        return sorted(found, key=lambda board: (board.version, board.digest))

    def holds(self, digest: str) -> bool:
        """Whether a board with this digest was put here."""
        return any(board.digest == digest for board in self.boards())

    def adopt(self, arrived: Path, *, digest: str) -> Path:
        """Add a board that lies in a file on the same disk, durably; the file is moved, or deleted if it is not it.

        Args:
            arrived: the file.
            digest: what it must have, from the signed manifest.

        Raises:
            InputError: not a board, or not this one; nothing is kept.
        """
        try:
            board = _verified(arrived, digest)
        except InputError:
            arrived.unlink(missing_ok=True)
            raise
        place = self.folder / f"board-{board.version:04d}-{digest}.board"
        with arrived.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(arrived, place)
        self._make_room()
        return place

    def load(self, digest: str) -> Board:
        """The board with this digest.

        Raises:
            InputError: it is not here, or was damaged, and then it is deleted.
        """
        for cached in self.boards():
            if cached.digest == digest:
                return self._opened(cached)
        raise InputError(f"{self.folder}: board {digest[:16]} is not in this cache; fetch it")

    def keep_only(self, digests: Set[str]) -> None:
        """Delete all other boards: nobody vouches for them any more."""
        for cached in self.boards():
            if cached.digest not in digests:
                cached.path.unlink(missing_ok=True)

    def newest(self) -> Board:
        """The board of the highest version that is whole; damaged ones are deleted on the way.

        Raises:
            InputError: there is none.
        """
        for cached in reversed(self.boards()):
            with contextlib.suppress(InputError):
                return self._opened(cached)
        raise InputError(f"{self.folder}: no board in this cache; fetch one")

    def _opened(self, cached: CachedBoard) -> Board:
        try:
            return _verified(cached.path, cached.digest)
        except InputError:
            cached.path.unlink(missing_ok=True)
            raise

    def _make_room(self) -> None:
        boards = self.boards()
        excess = sum(board.n_bytes for board in boards) - self._max_bytes
        for board in boards[:-1]:
            if excess <= 0:
                break
            board.path.unlink(missing_ok=True)
            excess -= board.n_bytes


def require_digest(path: Path, board: Board) -> None:
    """Hold a board against the digest that its file name states or, where it states none, its certificate.

    Raises:
        InputError: its content is another one.
    """
    match = _NAME.fullmatch(path.name)
    stated = match[2] if match else (board.certificate or {}).get("board_digest")
    if stated is not None and stated != _digest_of(path, board):
        raise InputError(
            f"{path}: the content of this board is not the one that its {'name' if match else 'certificate'} "
            "states; it was damaged or changed, fetch it again"
        )


def _verified(path: Path, digest: str) -> Board:
    board = Board.load(path)
    if _digest_of(path, board) != digest:
        raise InputError(
            f"{path}: this is not board {digest[:16]}; it was damaged or changed, fetch it again"
        )
    return board


def _digest_of(path: Path, board: Board) -> str:
    try:
        return board.digest
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a complete fedboard board; fetch it again") from error


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
