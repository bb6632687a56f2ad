"""One process at a time: a lock on a file, which the kernel lets go however its holder ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedboard.common.errors import InputError


@contextmanager
def held_alone(lock: Path, *, refusal: str) -> Iterator[None]:
    """Hold a lock while the block runs.

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
