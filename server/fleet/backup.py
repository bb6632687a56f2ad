"""A backup of a server, made while it runs or not: one file for its owner alone, checked when it is read.

What is published is copied before what pays for it, so that a backup's ledger holds at least what its boards cost:
whatever the server does meanwhile, a backup is never underbooked for its own boards. Databases are copied by
SQLite's own backup, as they are at one moment.
"""

import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path, PurePosixPath

import msgspec

from fedboard.common.errors import InputError
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import StateFolder
from fedboard.server.publication import BoardStore

FORMAT = 2
_CONTENTS = "contents.json"
_MOST_CONTENTS = 1 << 24


class Contents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is in a backup."""

    format: int = FORMAT
    name: str
    """Of the training run."""
    made: float
    """Seconds since 1970 UTC."""
    board: int
    """Version of the newest board; -1: none."""
    outside: tuple[str, ...]
    """Files that ``fleet.toml`` names and that are not in here."""
    digests: dict[str, str]
    """Path to the SHA-256 of the file."""


def write_archive(place: Path, contents: Contents, files: Mapping[str, Path]) -> None:
    """Write a new file that its owner alone can read; durable on return.

    Args:
        place: where nothing is.
        contents: told first; its digests are those of ``files``.
        files: path in the backup to the file.

    Raises:
        InputError: something is there, or it cannot be written.
    """
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w") as tar:
                _add(tar, _CONTENTS, msgspec.json.format(msgspec.json.encode(contents)))
                for path, source in files.items():
                    _add(tar, path, source.read_bytes())
            stream.flush()
            os.fsync(stream.fileno())
    except FileExistsError:
        raise InputError(f"{place}: something is there; a backup is a new file") from None
    except OSError as error:
        raise InputError(f"{place}: no backup can be written there ({error.strerror})") from error


def _add(tar: tarfile.TarFile, path: str, content: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), 0o600
    tar.addfile(entry, io.BytesIO(content))


def digest_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack(place: Path, folder: Path) -> Contents:
    """Write the files of a backup into a folder, each as it was backed up and no other.

    Args:
        place: of the backup.
        folder: new; its owner's alone.

    Raises:
        InputError: it is no backup, of another version, damaged, or not whole.
    """
    try:
        with tarfile.open(place, mode="r:") as tar:
            contents = _contents(tar)
            for entry in tar:
                if entry.name != _CONTENTS:
                    _unpack_one(tar, entry, contents.digests, folder)
    except (OSError, tarfile.TarError, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{place}: this is no whole backup ({error})") from error
    missing = [path for path in contents.digests if not (folder / path).exists()]
    if missing:
        raise InputError(f"{place}: this backup is not whole: {missing[0]} is missing")
    return contents


def _contents(tar: tarfile.TarFile) -> Contents:
    first = tar.next()
    stream = None if first is None or first.name != _CONTENTS else tar.extractfile(first)
    if first is None or stream is None or first.size > _MOST_CONTENTS:
        raise ValueError("it does not begin with its contents")
    plain = msgspec.json.decode(stream.read())
    if isinstance(plain, dict) and plain.get("format") != FORMAT:
        raise ValueError(
            f"it is of format {plain.get('format')!r}, and this version of fedboard reads {FORMAT}"
        )
    return msgspec.convert(plain, Contents)


def _unpack_one(
    tar: tarfile.TarFile, entry: tarfile.TarInfo, digests: Mapping[str, str], folder: Path
) -> None:
    parts = PurePosixPath(entry.name).parts
    stream = tar.extractfile(entry) if entry.isreg() else None
    if stream is None or entry.name not in digests or ".." in parts or entry.name.startswith("/"):
        raise ValueError(f"{entry.name!r} is not among its contents")
    content = stream.read()
    if hashlib.sha256(content).hexdigest() != digests[entry.name]:
        raise ValueError(f"{entry.name!r} is not what was backed up")
    path = folder.joinpath(*parts)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())


CONFIG, STATE, SETTINGS = "config", "state", "fleet.toml"
_SUFFIX = ".fedboard"
_DATABASE, _PASSING, _BESIDE = ".sqlite", (".lock", ".part"), ("-wal", "-shm", "-journal")
_COPYING = "backup-"
"""Begins the name of a folder in which a backup is put together."""


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
    with tempfile.TemporaryDirectory(dir=state.path, prefix=_COPYING) as folder:
        copied = Path(folder)
        outside = _copy_config(settings, config, copied / CONFIG)
        for path in sorted(_kept(state.path), key=lambda path: _when(state, path)):
            _copy(path, copied / STATE / path.relative_to(state.path))
        files = {
            path.relative_to(copied).as_posix(): path for path in sorted(copied.rglob("*")) if path.is_file()
        }
        contents = Contents(
            name=settings.name,
            made=made,
            board=max(BoardStore(StateFolder(copied / STATE, state.name).boards).versions(), default=-1),
            outside=tuple(outside),
            digests={path: digest_of(source) for path, source in files.items()},
        )
        write_archive(place, contents, files)
    return place, contents


def _kept(folder: Path) -> Iterator[Path]:
    """The files of a folder that say something in another process."""
    for path in folder.rglob("*"):
        passing = path.suffix in _PASSING or path.name.endswith(_BESIDE)
        copying = path.relative_to(folder).parts[0].startswith(_COPYING)
        if path.is_file() and not passing and not copying:
            yield path


def _when(state: StateFolder, path: Path) -> tuple[int, int, str]:
    """What is signed first, then the boards, what is said of them, and what pays: the ledgers of queries, the
    training's, the account that both are paid from, the register.
    """
    order = (path.is_relative_to(state.mirror), path.parent.name == "boards", path.suffix != _DATABASE, True)
    return order.index(True), -len(path.parts), str(path)


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != _DATABASE:
        with suppress(FileNotFoundError):  # what was signed of a board goes when the board is shown
            shutil.copyfile(path, target)
        return
    with (
        closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as held,
        closing(sqlite3.connect(target)) as copy,
    ):
        held.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def _copy_config(settings: FleetSettings, config: Path, target: Path) -> list[str]:
    """``fleet.toml``, keys and catalogue where they are beside it or below; the paths of the others."""
    folder, outside = config.absolute().parent, list[str]()
    _copy(config, target / SETTINGS)
    for named in (settings.keys, settings.catalogue.file, settings.catalogue.features):
        if named is None or not named.exists():
            continue
        if not named.is_relative_to(folder) or ".." in named.relative_to(folder).parts:
            outside.append(str(named))
            continue
        for path in _kept(named) if named.is_dir() else (named,):
            _copy(path, target / path.relative_to(folder))
    return outside
