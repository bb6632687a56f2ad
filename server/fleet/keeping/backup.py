"""Making a backup of a server, while it runs or not.

What is published is copied before what pays for it, so that a backup's ledger holds at least what its boards cost:
whatever the server does meanwhile, a backup is never underbooked for its own boards.
"""

import shutil
import sqlite3
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.keeping.archive import Contents, digest_of, write_archive
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.publication import BoardStore

CONFIG, STATE, SETTINGS = "config", "state", "fleet.toml"
_SUFFIX = ".fedboard"
_LEDGER = "ledger.sqlite"
_DATABASE, _PASSING, _BESIDE = ".sqlite", (".lock", ".part"), ("-wal", "-shm", "-journal")
_OF_RUN = ("closed", "rounds.jsonl", "certificate.json", "protocol", "contributions-asked.json")


def back_up(
    settings: FleetSettings, config: Path, place: Path, *, clock: Callable[[], float] = time.time
) -> tuple[Path, Contents]:
    """Write a backup.

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
            f"{state.path}: no fleet was prepared there, so there is nothing to back up; fedboard "
            "server --check does it"
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
    with tempfile.TemporaryDirectory(dir=state.path, prefix="backup-") as folder:
        copied = Path(folder)
        outside = _copy_named(settings, config, copied)
        _copy_state(state, copied / STATE)
        files = {
            path.relative_to(copied).as_posix(): path for path in sorted(copied.rglob("*")) if path.is_file()
        }
        contents = Contents(
            name=settings.name,
            made=made,
            ledger_head=_head(copied / STATE / "runs" / settings.name / _LEDGER),
            board=max(BoardStore(copied / STATE / "runs" / settings.name / "boards").versions(), default=-1),
            state=_place_of(settings, config),
            outside=tuple(outside),
            digests={path: digest_of(source) for path, source in files.items()},
        )
        write_archive(place, contents, files)
    return place, contents


def _place_of(settings: FleetSettings, config: Path) -> str:
    """Of the state folder, from that of ``fleet.toml``; a name of its own where it is elsewhere."""
    folder = config.absolute().parent
    if settings.state.is_relative_to(folder) and ".." not in settings.state.relative_to(folder).parts:
        return settings.state.relative_to(folder).as_posix()
    return STATE


def _copy_named(settings: FleetSettings, config: Path, copied: Path) -> list[str]:
    """``fleet.toml`` and what it names beside it or in the state folder; the others' paths."""
    folder, outside = config.absolute().parent, list[str]()
    (copied / CONFIG).mkdir(parents=True)
    shutil.copyfile(config, copied / CONFIG / SETTINGS)
    raw = tomllib.loads(config.read_text(encoding="utf-8"))
    keys = [str(node.get("public_key", "")) for node in raw.get("nodes", [])]
    named = [*_paths(settings), *(folder / key for key in keys if not key.startswith("ecdsa-"))]
    for path in dict.fromkeys(named):
        if not path.exists():
            continue
        if path.is_relative_to(settings.state):
            _copy_tree(path, copied / STATE / path.relative_to(settings.state))
        elif path.is_relative_to(folder) and ".." not in path.relative_to(folder).parts:
            _copy_tree(path, copied / CONFIG / path.relative_to(folder))
        else:
            outside.append(str(path))
    return outside


def _copy_tree(path: Path, target: Path) -> None:
    """A file, or the files of a folder."""
    for source in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if source.is_file():
            copy = target / source.relative_to(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # what was signed of a board goes when the board is shown
                shutil.copyfile(source, copy)


def _paths(value: Any) -> Iterator[Path]:
    """All paths that settings name, but for the state folder."""
    for field in value.__struct_fields__:
        inner = getattr(value, field)
        if field == "state":
            continue
        for one in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(one, Path):
                yield one
            elif isinstance(one, msgspec.Struct):
                yield from _paths(one)


def _copy_state(state: StateFolder, target: Path) -> None:
    """Boards first, the ledger last."""
    run = target / "runs" / state.name
    run.mkdir(parents=True, exist_ok=True)
    for path in (state.first_board, state.features, state.job):
        if path.exists():
            shutil.copyfile(path, target / path.name)
    for folder, copy in ((state.mirror, target / "mirror"), (state.run / "boards", run / "boards")):
        if folder.is_dir():
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.part", "*.lock"))
    for name in _OF_RUN:
        if (state.run / name).exists():
            shutil.copyfile(state.run / name, run / name)
    _copy_database(state.members, target / state.members.name)
    _copy_database(state.run / _LEDGER, run / _LEDGER)
    _copy_questions(state, target)


def _copy_questions(state: StateFolder, target: Path) -> None:
    """Their boards first, then their ledgers, and the account that paid for all of them last."""
    files = [path for path in state.questions.rglob("*") if path.is_file()]
    kept = [path for path in files if path.suffix not in _PASSING and not path.name.endswith(_BESIDE)]
    for path in sorted(kept, key=lambda path: (path.suffix == _DATABASE, -len(path.parts))):
        copy = target / path.relative_to(state.path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == _DATABASE:
            _copy_database(path, copy)
        else:
            shutil.copyfile(path, copy)


def _copy_database(source: Path, target: Path) -> None:
    """As it is at one moment, whoever writes to it."""
    if not source.exists():
        return
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as held,
        closing(sqlite3.connect(target)) as copy,
    ):
        held.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def _head(ledger: Path) -> str | None:
    if not ledger.exists():
        return None
    with Ledger.open(ledger, read_only=True) as opened:
        return opened.head
