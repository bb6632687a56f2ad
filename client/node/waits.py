"""How long a device waits between two requests for work, and what it does meanwhile."""

import logging
import random
import time
from collections.abc import Callable
from threading import Event
from typing import Final

from fedboard.client.node.tally import Trouble

_log = logging.getLogger(__name__)

_FIRST_WAIT, _LONGEST_WAIT = 0.25, 10.0
_LEAST_PAUSE: Final = 0.05
"""Whatever a server says."""
_TIMES_A_REQUEST: Final = 4.0
"""The least pause between two requests for work, counted in the time that one takes."""
_IDLE_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.5
"""How often a node that rests looks whether it was told to stop by another thread."""
_JITTER: Final = (0.8, 1.2)


class Waits:
    """The waits of one node, and its trouble with the server, which is logged when it becomes another."""

    def __init__(self, server: str, idle: Callable[[], object]) -> None:
        """Nothing is wrong yet.

        Args:
            server: for the log.
            idle: is called about once a minute by ``tidy``; what it raises is logged.
        """
        self.trouble: Trouble | None = None
        """Why the last request failed; None where it did not."""
        self._server, self._wait = server, _FIRST_WAIT
        self._idle, self._next_idle = idle, 0.0

    def tidy(self) -> None:
        """Do what is done between two messages, if it is time."""
        if time.monotonic() < self._next_idle:
            return
        self._next_idle = time.monotonic() + _IDLE_SECONDS
        try:
            self._idle()
        except Exception:
            _log.exception("what is done between two messages failed")

    def failed(self, trouble: Trouble) -> float:
        """A request came to nothing.

        Returns:
            Seconds until the next one; twice as many each time.
        """
        if trouble is not self.trouble:
            _log.warning("no work from %s: %s", self._server, trouble)
        self.trouble = trouble
        wait, self._wait = self._wait, min(2 * self._wait, _LONGEST_WAIT)
        return jittered(wait)

    def went_well(self) -> None:
        """The last request did not fail."""
        self._wait, self.trouble = _FIRST_WAIT, None


def pause_after(usual: float, *, took: float) -> float:
    """Until the next request for work: a server that is slow is asked less, or the requests of all devices would
    leave it no time for anything else.

    Args:
        usual: seconds, as the server says.
        took: seconds of the last request.

    Returns:
        Seconds.
    """
    return max(usual, _LEAST_PAUSE, min(_TIMES_A_REQUEST * took, _LONGEST_WAIT))


def jittered(seconds: float) -> float:
    """A little more or less, so that devices that were woken together do not stay together."""
    return seconds * random.uniform(*_JITTER)


def rest(stop: Event, seconds: float) -> None:
    """Wait, or until the stop; an interrupt ends it at once. In ``Event.wait`` an interrupt can come where its lock
    is not held, and what is raised then is that it was released unlocked.
    """
    until = time.monotonic() + seconds
    while not stop.is_set() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
