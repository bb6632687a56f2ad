"""The file of a backup: a tar of files with a list of what they are, checked byte by byte when it is read."""

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

from fedboard.common.errors import InputError

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
