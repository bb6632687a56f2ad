"""Writing files so that what is there is always whole."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedboard.common.errors import InputError


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


@contextmanager
def held_alone(lock: Path, *, refusal: str) -> Iterator[None]:
    """Hold a lock that the kernel lets go however its holder ends.

    Args:
        lock: a file; made if need be.
        refusal: what is said where another process holds it.

    Raises:
        InputError: it is held.
    """
    with lock.open("ab") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(refusal) from None
        yield
