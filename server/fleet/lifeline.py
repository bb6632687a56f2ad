"""A child that cannot outlive its parent: it holds one end of a pipe and ends when the other end is gone.

The kernel closes the parent's end however the parent ends, ``kill -9`` included, so no process is left to hold a
port; unlike process ids, a pipe is never mistaken for another one.
"""

import os
import signal
import sys
import threading

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


__all__ = ["end_with_parent"]
