"""A child that cannot outlive its parent: it holds one end of a pipe and ends when the other end is gone.

The kernel closes the parent's end however the parent ends, ``kill -9`` included, so no process is left to hold a
port; unlike process ids, a pipe is never mistaken for another one.
"""

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedboard.common.errors import FedboardError

SERVER_LOCK = "FEDBOARD_SERVER_LOCK"
"""Environment variable with the file that the server locks, for what its children start."""
_GRACE_SECONDS = 1.5


def end_with_parent() -> None:
    """End this process when its standard input ends: politely, and soon after without courtesy.

    Call it first thing in a child that was started with a pipe as its standard input.
    """
    lifeline = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)

    def watch() -> None:
        while os.read(lifeline, 1):
            pass
        threading.Timer(_GRACE_SECONDS, os._exit, (1,)).start()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="lifeline").start()


@contextmanager
def told_in_a_sentence(part: str) -> Iterator[None]:
    """End this process with one line on standard error, which the supervisor tells, where a disk is full, a file
    cannot be used or it was interrupted; what is no such thing shows where it was raised.

    Args:
        part: what this process is.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(0)
    except (FedboardError, OSError) as error:
        sys.exit(f"{part} ends: {error}")


def end_with_holder(lock: Path) -> None:
    """End this process at once when the server that holds this lock is gone.

    For a process that something in between has started, which hands no pipe on. The kernel wakes whoever waits for
    a lock in the moment when its holder ends.

    Args:
        lock: file that the server holds an exclusive lock on.
    """
    held = os.open(lock, os.O_RDONLY)

    def watch() -> None:
        fcntl.flock(held, fcntl.LOCK_SH)
        os._exit(1)  # a run goes on from its folder, however it was ended

    threading.Thread(target=watch, daemon=True, name="lifeline").start()
