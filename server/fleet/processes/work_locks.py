"""Who is at work in a folder: locks on files, which the kernel lets go however their holders end.

Flower finds out that a ServerApp was killed when it has missed its heartbeats for a minute; this tells at once.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedboard.common.files import held_alone

_NAME = "at-work.lock"


@contextmanager
def at_work(folder: Path) -> Iterator[None]:
    """Be seen at work on a run.

    Args:
        folder: the run's; made if need be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _NAME).open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield


def is_at_work(folder: Path) -> bool:
    """Whether any process is at work on the run in this folder."""
    return is_locked(folder / _NAME)


def is_locked(lock: Path) -> bool:
    """Whether any process holds this lock."""
    try:
        with lock.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Be the one server that works on a state folder.

    Args:
        lock: its file in that folder; made if need be.

    Raises:
        InputError: another server works there.
    """
    with held_alone(lock, refusal=f"{lock.parent}: another fedboard server works there; stop it first"):
        yield
