"""Polite signals as a word to ask for: for commands that serve in other threads until they are told to stop."""

import signal
from collections.abc import Callable


def told_to_stop() -> Callable[[], bool]:
    """Take SIGTERM and SIGINT from now on.

    Returns:
        Whether one came. The handlers take no lock: one that did, such as an event's, would wait for ever where the
        signal comes while the main thread holds it.
    """
    came: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sent, _: came.append(sent))
    return lambda: bool(came)
