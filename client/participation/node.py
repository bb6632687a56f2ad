"""A device that takes part in training: one process that answers what it is asked.

It asks for work, answers and hands the answer in, and comes again when the server says, or later. Nothing that a
server sends is executed. A server that is away is waited for; why something fails stays on the device.
"""

import logging
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event
from typing import Final

from fedboard.client.participation.connection import CallError, Received, ServerConnection, Tally, Trouble
from fedboard.client.participation.contributing import RatingSource
from fedboard.client.participation.policy import Server
from fedboard.client.participation.rounds import Gate
from fedboard.client.participation.steps import Client, MemoryVault, is_asking, respond_to
from fedboard.common.messages.certificate_dates import read_authority
from fedboard.common.messages.devices import DeviceKey
from fedboard.common.messages.question import refusal
from fedboard.common.messages.refusals import Refusal

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


OpenDevice = Callable[[], AbstractContextManager[tuple[RatingSource, Gate]]]
"""Opens the ratings and the gate for the time of one answer."""


_KEPT_SECONDS = 5.0
"""A connection is kept by a device that comes again so soon; each that is open takes memory of the server."""


class Node:
    """Answers messages one at a time, until it is told to stop."""

    def __init__(
        self,
        server: Server,
        open_device: OpenDevice,
        *,
        tally: Tally | None = None,
        idle: Callable[[], object] = lambda: None,
        backend: str = "numpy",
    ) -> None:
        """Read certificate and key; nothing is sent yet.

        Args:
            server: how it is reached, as the device's configuration says.
            open_device: for each answer.
            tally: where it counts; None: nowhere.
            idle: is called about once a minute, also while the server is away, never while it answers.
            backend: which kernels compute.

        Raises:
            InputError: a file cannot be read as what it should be.
        """
        self.server, self.tally = server, tally or Tally()
        self.trouble: Trouble | None = None
        """Why the last request failed; None where it did not."""
        self._open, self._backend, self._idle = open_device, backend, idle
        self._wait, self._next_idle = _FIRST_WAIT, 0.0
        self._connection = ServerConnection(
            address=server.address,
            authority=read_authority(server.authority),
            key=DeviceKey.load(server.key),
            largest=server.max_question_megabytes << 20,
            tally=self.tally,
        )
        self._vault = MemoryVault()
        self._unsent: tuple[str, bytes] | None = None
        self._took = 0.0

    def run(self, stop: Event, *, messages: int | None = None) -> Tally:
        """Answer until ``stop`` is set; a server that is away is waited for.

        Args:
            stop: set it from another thread, or interrupt this one.
            messages: end after as many answers; None: never.

        Returns:
            What was done.
        """
        try:
            while not stop.is_set() and (messages is None or self.tally.answered < messages):
                self._tidy()
                rest(stop, self.turn())
        finally:
            self._connection.close()
        return self.tally

    def turn(self) -> float:
        """Ask once for work, and answer what there is.

        Returns:
            Seconds until the next turn.
        """
        try:
            self._work()
        except Exception as error:
            return self._failed(error)
        if self.trouble is not None:
            _log.info("connected to %s", self.server.address)
        self._wait, self.trouble = _FIRST_WAIT, None
        pause = jittered(pause_after(self._connection.pause, took=self._took))
        if pause > _KEPT_SECONDS:
            self._connection.close()
        return pause

    def _tidy(self) -> None:
        """Do what is done between two messages, if it is time."""
        if time.monotonic() < self._next_idle:
            return
        self._next_idle = time.monotonic() + _IDLE_SECONDS
        try:
            self._idle()
        except Exception:
            _log.exception("what is done between two messages failed")

    def _failed(self, error: Exception) -> float:
        """Take note of a request that came to nothing; each trouble is logged when it becomes another.

        Returns:
            Seconds until the next one; twice as many each time.
        """
        found = error.trouble if isinstance(error, CallError) else Trouble.REFUSED
        if self._unsent is not None and found not in (Trouble.UNREACHABLE, Trouble.EXPIRED):
            self._unsent = None
            self.tally.undelivered += 1
        if found is not self.trouble:
            _log.warning("no work from %s: %s", self.server.address, found)
        self.trouble = found
        wait, self._wait = self._wait, min(2 * self._wait, _LONGEST_WAIT)
        return jittered(wait)

    def _work(self) -> None:
        """Send the answer that waits, or make the next one, if there is anything to do."""
        if self._unsent is None:
            began = time.monotonic()
            received = self._connection.receive()
            self._took = time.monotonic() - began
            if received is None:
                return
            self.tally.asked += 1
            self._unsent = (received.work, self._answer(received))
        self._connection.send(*self._unsent)
        self._unsent = None
        self.tally.answered += 1

    def _answer(self, received: Received) -> bytes:
        """What is sent: an answer, or a code; never the text of what went wrong."""
        if received.frame is None:
            return self._refusal(Refusal.TOO_LARGE)
        if not is_asking(received.kind, received.board):
            return self._refusal(Refusal.MALFORMED)
        try:
            with self._open() as (source, gate):
                client = Client(
                    source=source,
                    gate=gate,
                    vault=self._vault,
                    backend=self._backend,
                    heard=self.tally.refuse,
                )
                return respond_to(received.kind, received.frame, received.board, client)
        except Exception:  # its text may hold data of this device
            _log.exception("the device failed; the server is told a code and nothing else")
            return self._refusal(Refusal.INTERNAL)

    def _refusal(self, code: Refusal) -> bytes:
        self.tally.refuse(code)
        return refusal(code)
