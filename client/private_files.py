"""Folders and files that their owner alone may read, also where they were there before with wider rights."""

import os
from pathlib import Path
from typing import BinaryIO

from fedboard.common.errors import InputError
from fedboard.common.files import open_file, write_atomically

_OTHERS = 0o077
_SQLITE = b"SQLite format 3\0"


def make_private_folder(folder: Path) -> None:
    """Make a folder (mode 0700), or narrow one that is there.

    Raises:
        OSError: it cannot be made, or belongs to somebody else who lets others look.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & _OTHERS:
        folder.chmod(0o700)


def is_database(path: Path) -> bool:
    """Whether a file is a database, of ratings or of releases; nothing else is asked of it here.

    Raises:
        InputError: it cannot be read.
    """
    return _begins(path).startswith(_SQLITE)


def is_json(path: Path) -> bool:
    """Whether a file begins as a JSON object does.

    Raises:
        InputError: it cannot be read.
    """
    return _begins(path).lstrip().startswith(b"{")


def _begins(path: Path) -> bytes:
    try:
        with open_file(path, largest=None) as stream:
            return stream.read(64)
    except OSError as error:
        raise InputError(f"{path}: nothing can be read there ({error.strerror})") from error


def open_private(path: Path) -> BinaryIO:
    """Open a file (mode 0600) for writing; what was in it is gone."""
    stream = os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb")
    path.chmod(0o600)
    return stream


def write_private(path: Path, content: bytes) -> None:
    """Write a file (mode 0600) so that a crash leaves the old content or the new one; durable on return."""
    open_private(path.with_name(path.name + ".part")).close()  # made first, so that it is private all along
    write_atomically(path, content)


def write_new_private(path: Path, content: bytes) -> None:
    """Write a file (mode 0600) where there is none; durable on return.

    Raises:
        FileExistsError: something is there; it stays as it is.
    """
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
