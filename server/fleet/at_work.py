"""Whether the ServerApp is at work: a lock on a file, which the kernel lets go however its holder ends.

Flower finds out that a ServerApp was killed when it has missed its heartbeats for a minute; this tells at once.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    try:
        with (folder / _NAME).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


__all__ = ["at_work", "is_at_work"]
