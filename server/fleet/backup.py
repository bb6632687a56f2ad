"""Backup of a server, made while it runs or not, and going on from it without spending anything twice.

What is published is copied before what pays for it, so that a backup's ledger holds at least what its boards cost:
whatever the server does meanwhile, a backup is never underbooked for its own boards. Databases are copied by
SQLite's own backup, as they are at one moment.

A backup is older than the server that is lost. What that server released since is in no ledger that is left; a
round drawn again on the same answers would be a second release that nobody booked. So a restored training goes on
only where somebody shows the newest board there is and it is the backup's; even then the round that may have been
under way counts as lost. Where later boards were published the training is over: the ledger that paid for them is
gone.
"""

import os
import shutil
import sqlite3
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.board import Board
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.job import job_of, prepare, protocol_of
from fedboard.server.fleet.queries import Standing, queries_of
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.running import features_of
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.fleet.state_folder import StateFolder, close, reason_of, reopen
from fedboard.server.publication import BoardStore, require_same_history
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.round import book_lost

_CONFIG, _STATE, _SETTINGS, _CONTENTS = "config", "state", "fleet.toml", "contents.json"
_SUFFIX, _DATABASE = ".fedboard", ".sqlite"
_PASSING, _BESIDE = (".lock", ".part", _SUFFIX), ("-wal", "-shm", "-journal")
"""No backup is in another, nor in itself while it is written."""
_UNFINISHED = (
    "it was being restored from a backup, and that came to no end; restore it again, into another folder"
)


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of a backup, in its last file."""

    format: Literal[3] = 3
    name: str
    """Of the training run."""
    made: float
    """Seconds since 1970 UTC."""
    board: int
    """Version of the newest board; -1: none."""
    outside: tuple[str, ...]
    """Files that ``fleet.toml`` names and that are not in here."""


def back_up(
    settings: FleetSettings, config: Path, place: Path, *, clock: Callable[[], float] = time.time
) -> tuple[Path, Contents]:
    """Write a backup: a zip archive that its owner alone can read; durable on return.

    Args:
        settings: of the fleet.
        config: their file.
        place: a new file that ends in ``.fedboard``, or a folder, in which the file is called after the run and
            the time; made if need be.
        clock: seconds since 1970 UTC.

    Returns:
        The file, and what is in it.

    Raises:
        InputError: no fleet was prepared, or nothing can be written there.
    """
    state, made = StateFolder.of(settings), clock()
    if not state.first_board.exists():
        raise InputError(
            f"{state.path}: no fleet was prepared there, so there is nothing to back up; fedboard server --check "
            "does it"
        )
    if place.suffix != _SUFFIX or place.is_dir():
        try:
            place.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{place}: this is no folder for backups and none can be made ({error.strerror}); give a folder, "
                f"or a new file that ends in {_SUFFIX}"
            ) from error
        place = place / f"{settings.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(made))}{_SUFFIX}"
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream, ExitStack() as stack:
            stack.callback(place.unlink)  # half of a backup is none
            with zipfile.ZipFile(stream, "w", strict_timestamps=False) as archive:
                contents = _write(archive, settings, config, made)
            stream.flush()
            os.fsync(stream.fileno())
            stack.pop_all()
    except FileExistsError:
        raise InputError(f"{place}: something is there; a backup is a new file") from None
    except OSError as error:
        problem = f"{error.strerror}: {error.filename or place}"
        raise InputError(f"{place}: no backup can be written there ({problem})") from error
    return place, contents


def _write(archive: zipfile.ZipFile, settings: FleetSettings, config: Path, made: float) -> Contents:
    """``fleet.toml``, keys and catalogue where they are beside it or below; then the state, in its order."""
    state, folder, outside = StateFolder.of(settings), config.absolute().parent, list[str]()
    archive.write(config, f"{_CONFIG}/{_SETTINGS}")
    for named in (settings.keys, settings.catalogue.file, settings.catalogue.features):
        if named is None or not named.exists():
            continue
        if not named.is_relative_to(folder) or ".." in named.relative_to(folder).parts:
            outside.append(str(named))
            continue
        for path in _kept(named) if named.is_dir() else (named,):
            archive.write(path, f"{_CONFIG}/{path.relative_to(folder)}")
    kept = sorted(_kept(state.path), key=lambda path: _when(state, path))
    for path in kept:
        name = f"{_STATE}/{path.relative_to(state.path)}"
        if path.suffix != _DATABASE:
            with suppress(FileNotFoundError):  # what was signed of a board goes when the board is shown
                archive.write(path, name)
            continue
        with (
            closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as held,
            closing(sqlite3.connect(":memory:")) as copy,
        ):
            held.backup(copy)
            archive.writestr(name, copy.serialize())
    boards = [int(path.stem.removeprefix("board-")) for path in kept if path.parent == state.boards]
    contents = Contents(name=settings.name, made=made, board=max(boards, default=-1), outside=tuple(outside))
    archive.writestr(_CONTENTS, msgspec.json.encode(contents))
    return contents


def _kept(folder: Path) -> Iterator[Path]:
    """The files of a folder that say something in another process."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in _PASSING and not path.name.endswith(_BESIDE):
            yield path


def _when(state: StateFolder, path: Path) -> tuple[int, int, str]:
    """What is signed first, then the boards, what is said of them, and what pays: the ledgers of queries, the
    training's, the account that both are paid from, the register.
    """
    order = (path.is_relative_to(state.mirror), path.parent.name == "boards", path.suffix != _DATABASE, True)
    return order.index(True), -len(path.parts), str(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What came of it."""

    config: Path
    contents: Contents
    lost_round: int | None
    """The round that was booked as lost, since it may have been under way; None where there was none to book."""
    withdrawn: int
    """Open invitations, which are void now."""
    witnessed: bool
    """Whether witnesses cosign its boards. They refuse what does not continue the last that they have signed: where
    more was signed since the backup, the newest copy of the mirror has to take the place of the backup's."""


def restore(
    backup: Path, folder: Path, *, newest: Path | None = None, stopped: bool = False, closed: bool = False
) -> Restored:
    """Write a fleet from its backup into a new folder, and say in its ledger what may have happened since.

    Args:
        backup: of a server.
        folder: empty or not there.
        newest: the newest board that anybody has: its file, a folder of boards, a mirror. It must be the backup's.
        stopped: nothing ran since the backup was made, says the operator: the server had been stopped.
        closed: go on with publishing only.

    Raises:
        InputError: no such backup, the folder is not empty, or not exactly one of the three is given.
        PrivacyError: later boards were published, or another one in the place of the backup's; nothing was written.
        Whatever it raises later on, a catalogue that is elsewhere and missing, say: the training there is closed.
    """
    if (newest is not None) + stopped + closed != 1:
        raise InputError(
            "a backup is older than what was lost, and what was released since is not in its ledger; say one of: "
            "--newest-board PLACE (the newest board that anybody has, which must be the backup's), "
            "--stopped (the server "
            "had been stopped before the backup, and has not run since), --closed (publish, and train no more)"
        )
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: a backup is restored into a new folder; give one that is empty")
    folder = folder.absolute()  # as paths in settings are
    parts = folder.with_name(f"{folder.name}.restoring")
    shutil.rmtree(parts, ignore_errors=True)
    try:
        parts.mkdir(mode=0o700, parents=True)
        contents = _unpack(backup, parts)
        staged = StateFolder(parts / _STATE, contents.name)
        latest = _latest(staged)
        if newest is not None:
            _require_newest(newest, latest, contents)
        was_open = reason_of(staged.run) is None
        if was_open:  # until the round that may be lost is booked, whatever fails before, on whichever disk
            close(staged.run, _UNFINISHED)
        _close_questions(staged, stopped=stopped)
        settings = _place(parts, folder)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    state = StateFolder.of(settings)
    with Register(state.members) as register:
        withdrawn = register.withdraw_all()
    if closed:
        close(state.run, "a backup was restored, and nobody could show that nothing was released since")
    prepare(settings)
    lost = _book_round(settings, state, latest) if newest is not None and latest is not None else None
    if was_open and not closed:
        reopen(state.run)
    return Restored(
        config=folder / _SETTINGS,
        contents=contents,
        lost_round=lost,
        withdrawn=withdrawn,
        witnessed=bool(settings.boards.witnesses),
    )


def _unpack(backup: Path, folder: Path) -> Contents:
    """Write the files of a backup into a folder that its owner alone can enter; durable on return.

    Raises:
        InputError: it is no backup, of another version, damaged, or not whole.
    """
    try:
        with zipfile.ZipFile(backup) as archive:
            archive.extractall(folder)  # holds each file against its checksum, and stays in the folder
        contents = msgspec.json.decode((folder / _CONTENTS).read_bytes(), type=Contents)
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{backup}: this is no whole backup ({error})") from error
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    os.sync()
    return contents


def _place(parts: Path, folder: Path) -> FleetSettings:
    """Settings and keys into the folder, the state where they say, whole or not at all.

    Raises:
        InputError: the state folder is elsewhere, and something is there.
    """
    os.replace(parts / _CONFIG, folder)
    folder.chmod(0o700)
    settings = read_settings(folder / _SETTINGS)
    if settings.state.exists():
        shutil.rmtree(folder)
        raise InputError(
            f"{settings.state}: something is there, and it is where {_SETTINGS} of this backup has its state; move "
            "it away"
        )
    settings.state.parent.mkdir(parents=True, exist_ok=True)
    beside = settings.state.with_name(f"{settings.state.name}.restoring")  # on the same disk
    shutil.rmtree(beside, ignore_errors=True)
    shutil.move(parts / _STATE, beside)
    os.replace(beside, settings.state)
    return settings


def _latest(state: StateFolder) -> Board | None:
    """The newest board of a run, held against its ledger."""
    store = BoardStore(state.boards)
    if not store.versions():
        return None
    board = store.latest()
    with Ledger.open(state.ledger, read_only=True) as ledger:
        require_same_history(board, ledger)
    return board


def _require_newest(place: Path, latest: Board | None, contents: Contents) -> None:
    """Hold the newest board that anybody has against the backup's.

    Of a mirror it is what was signed last, published or not, whichever files lie beside it.

    Raises:
        InputError: no board is there, or one of another run, or one that is older than the backup's.
        PrivacyError: it is later than the backup, or another one of the same version.
    """
    if place.is_dir() and (chain := Mirror(place).chain()):
        signed = chain[-1].manifest
        version, digest, ours = signed.version, signed.board_digest, signed.run == contents.name
    else:
        paths = [place] if place.is_file() else sorted(place.rglob("*.board"))
        if not paths:
            raise InputError(
                f"{place}: no board is there; give a board's file, a folder of boards, or a mirror"
            )
        board = max((Board.load(path) for path in paths), key=lambda board: board.version)
        version, digest = board.version, board.digest
        ours = latest is not None and (board.config, board.catalogue) == (latest.config, latest.catalogue)
    if latest is None or not ours:
        raise InputError(f"{place}: the board there is not of the training in this backup")
    if version > latest.version:
        raise PrivacyError(
            f"{place}: board {version} was published after this backup, whose newest is {latest.version}; the "
            "ledger that paid for it is lost, so this training is over. Restore a later backup, or --closed, and "
            "give a new training another state folder and budget"
        )
    if version < latest.version:
        raise InputError(
            f"{place}: board {version} is older than the backup's, {latest.version}; give the newest that anybody "
            "has: of the mirror, of a reader, of a device"
        )
    if digest != latest.digest:
        raise PrivacyError(
            f"{place}: board {version} there is another one than the backup's: this training went two ways, and no "
            "ledger holds both"
        )


def _close_questions(state: StateFolder, *, stopped: bool) -> None:
    """Give up what was under way. Unless nothing ran since, nobody knows what was asked after the backup, and so
    nothing more may be.
    """
    why = "a backup was restored"
    for put in queries_of(state):
        if put.standing() is Standing.WAITING:
            close(put.state.run, why)
    if not stopped:
        close(state.questions, f"{why}, and nobody can show what was asked since it was made")


def _book_round(settings: FleetSettings, state: StateFolder, board: Board) -> int | None:
    """Book the round after this board as lost: it may have been drawn, and its board never seen."""
    job = job_of(settings)
    task = rebuild_any(Board.load(state.first_board), backend=job.backend, features=features_of(job))
    requests = task.requests(board)
    if not requests:
        return None
    with Ledger.open(state.ledger) as ledger:
        booked = {str(event["name"]) for event in ledger.events()}
        if all(request.name in booked for request in requests):
            return board.version
        book_lost(task, board, ledger=ledger, noise=protocol_of(job).noise(settings.promise.noise_source))
    return board.version
