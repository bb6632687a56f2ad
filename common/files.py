"""Reading files that users name, and writing files so that what is there is always whole."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from fedboard.common.errors import InputError

_LOOK_SECONDS: Final = 0.02
LARGEST: Final = 1 << 26
"""Most bytes of a file that is read into memory: 64 MiB."""


def open_file(path: Path, *, largest: int | None = LARGEST) -> BinaryIO:
    """Open a file that a user names. A pipe or a device is refused: it may never end.

    Args:
        path: the file.
        largest: most bytes that it may have; None where it is not read into memory.

    Raises:
        InputError: not a regular file, or a larger one.
        OSError: it cannot be opened.
    """
    size = path.stat().st_size
    if not (path.is_file() or path.is_dir()):  # a folder fails below, as everywhere
        raise InputError(f"{path}: not a regular file; write what it gives into a file, and name that")
    if largest is not None and size > largest:
        raise InputError(f"{path}: it has {size} bytes, and at most {largest} are read; is it another file?")
    return path.open("rb")


def read_file(path: Path, *, largest: int = LARGEST) -> bytes:
    """Read a file that a user names; refused as by ``open_file``."""
    with open_file(path, largest=largest) as stream:
        return stream.read()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old content or the new one, never a part; durable on return."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Another one after the file was written or replaced: time, size and number; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def is_locked(lock: Path) -> bool:
    """Whether any process holds this lock, a file that need not be there."""
    try:
        with lock.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextmanager
def held_alone(lock: Path, *, refusal: str, seconds: float = 0.0) -> Iterator[None]:
    """Hold a lock while the block runs, as one process or thread at a time; the kernel lets it go however its
    holder ends.

    Args:
        lock: a file; made if need be.
        refusal: what is said where somebody else holds it.
        seconds: for so long it is waited for.

    Raises:
        InputError: it is held.
    """
    end = time.monotonic() + seconds
    with lock.open("ab") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise InputError(refusal) from None
                time.sleep(_LOOK_SECONDS)
        yield
