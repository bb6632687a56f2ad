"""Going on from a backup, on this path or another, without spending anything twice.

A backup is older than the server that is lost. What that server released since is in no ledger that is left; a
round drawn again on the same answers would be a second release that nobody booked. So a restored training goes on
only where somebody shows the newest board there is and it is the backup's; even then the round that may have been
under way counts as lost. Where later boards were published the training is over: the ledger that paid for them is
gone.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.algorithms.registry import rebuild_any
from fedboard.common.board import Board
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.backup import CONFIG, SETTINGS, STATE, Contents, unpack
from fedboard.server.fleet.job import protocol_of
from fedboard.server.fleet.preparing import job_of, prepare
from fedboard.server.fleet.queries import Standing, queries_of
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.running import features_of
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.fleet.state_folder import StateFolder, close, reason_of, reopen
from fedboard.server.publication import BoardStore, require_same_history
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.round import book_lost

_UNFINISHED = (
    "it was being restored from a backup, and that came to no end; restore it again, into another folder"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What came of it."""

    config: Path
    contents: Contents
    lost_round: int | None
    """The round that was booked as lost, since it may have been under way; None where there was none to book."""
    closed: bool
    """Whether nothing more will be released by this training."""
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
        contents = unpack(backup, parts)
        staged = StateFolder(parts / STATE, contents.name)
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
        config=folder / SETTINGS,
        contents=contents,
        lost_round=lost,
        closed=closed,
        withdrawn=withdrawn,
        witnessed=bool(settings.boards.witnesses),
    )


def _place(parts: Path, folder: Path) -> FleetSettings:
    """Settings and keys into the folder, the state where they say, whole or not at all.

    Raises:
        InputError: the state folder is elsewhere, and something is there.
    """
    os.replace(parts / CONFIG, folder)
    folder.chmod(0o700)
    settings = read_settings(folder / SETTINGS)
    if settings.state.exists():
        shutil.rmtree(folder)
        raise InputError(
            f"{settings.state}: something is there, and it is where {SETTINGS} of this backup has its state; move "
            "it away"
        )
    settings.state.parent.mkdir(parents=True, exist_ok=True)
    beside = settings.state.with_name(f"{settings.state.name}.restoring")  # on the same disk
    shutil.rmtree(beside, ignore_errors=True)
    shutil.move(parts / STATE, beside)
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

    Raises:
        InputError: no board is there, or one of another run, or one that is older than the backup's.
        PrivacyError: it is later than the backup, or another one of the same version.
    """
    version, digest, ours = _newest_of(place, latest, contents.name)
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


def _newest_of(place: Path, latest: Board | None, name: str) -> tuple[int, str, bool]:
    """Version and digest of the newest board there, and whether it is of this training. Of a mirror it is what
    was signed last, published or not, whichever files lie beside it.
    """
    if place.is_dir() and (chain := Mirror(place).chain()):
        signed = chain[-1].manifest
        return signed.version, signed.board_digest, signed.run == name
    paths = [place] if place.is_file() else sorted(place.rglob("*.board"))
    found = [Board.load(path) for path in paths]
    if not found:
        raise InputError(f"{place}: no board is there; give a board's file, a folder of boards, or a mirror")
    board = max(found, key=lambda board: board.version)
    ours = latest is not None and (board.config, board.catalogue) == (latest.config, latest.catalogue)
    return board.version, board.digest, ours


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
