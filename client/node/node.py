"""A device that takes part in training: one process that answers what it is asked.

It asks for work, answers and hands the answer in, and comes again when the server says, or later. Nothing that a
server sends is executed. A server that is away is waited for; why something fails stays on the device.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event

from fedboard.client.answering.heard_gate import HeardGate
from fedboard.client.answering.rounds import RatingSource, respond
from fedboard.client.answering.session_memory import MemoryVault
from fedboard.client.answering.steps import Client, SessionGate, respond_step
from fedboard.client.node.connection import CallError, Received, ServerConnection
from fedboard.client.node.settings import NodeSettings
from fedboard.client.node.tally import Tally, Trouble
from fedboard.client.node.waits import Waits, jittered, pause_after, rest
from fedboard.common.rounds.question import ROUND, STEP, refusal
from fedboard.common.wire.certificate_dates import read_authority
from fedboard.common.wire.devices import DeviceKey
from fedboard.common.wire.refusals import Refusal

OpenDevice = Callable[[], AbstractContextManager[tuple[RatingSource, SessionGate]]]
"""Opens the ratings and the gate for the time of one answer."""

_log = logging.getLogger(__name__)

_KEPT_SECONDS = 5.0
"""A connection is kept by a device that comes again so soon; each that is open takes memory of the server."""


class Node:
    """Answers messages one at a time, until it is told to stop."""

    def __init__(
        self,
        settings: NodeSettings,
        open_device: OpenDevice,
        *,
        tally: Tally | None = None,
        idle: Callable[[], object] = lambda: None,
        backend: str = "numpy",
    ) -> None:
        """Read certificate and key; nothing is sent yet.

        Args:
            settings: of the device.
            open_device: for each answer.
            tally: where it counts; None: nowhere.
            idle: is called about once a minute, also while the server is away, never while it answers.
            backend: which kernels compute.

        Raises:
            InputError: a file cannot be read as what it should be.
        """
        self.settings, self.tally = settings, tally or Tally()
        self._open, self._backend = open_device, backend
        self._waits = Waits(settings.server, idle)
        self._connection = ServerConnection(
            address=settings.server,
            authority=read_authority(settings.authority),
            key=DeviceKey.load(settings.key),
            largest=settings.largest,
            traffic=self.tally.traffic,
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
                self._waits.tidy()
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
        if self._waits.trouble is not None:
            _log.info("connected to %s", self.settings.server)
        self._waits.went_well()
        pause = jittered(pause_after(self._connection.pause, took=self._took))
        if pause > _KEPT_SECONDS:
            self._connection.close()
        return pause

    def _failed(self, error: Exception) -> float:
        found = error.trouble if isinstance(error, CallError) else Trouble.REFUSED
        if self._unsent is not None and found not in (Trouble.UNREACHABLE, Trouble.EXPIRED):
            self._unsent = None
            self.tally.undelivered += 1
        return self._waits.failed(found)

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
        frame = received.frame
        if frame is None:
            return self._refusal(Refusal.TOO_LARGE)
        alone = received.kind == ROUND and received.board is None
        if not alone and received.kind != STEP:
            return self._refusal(Refusal.MALFORMED)
        try:
            with self._open() as (source, opened):
                gate = HeardGate(opened, self.tally.refuse)
                if alone:
                    return respond(frame, source=source, gate=gate, backend=self._backend)
                client = Client(source=source, gate=gate, vault=self._vault, backend=self._backend)
                return respond_step(frame, received.board, client)
        except Exception:  # its text may hold data of this device
            _log.exception("the device failed; the server is told a code and nothing else")
            return self._refusal(Refusal.INTERNAL)

    def _refusal(self, code: Refusal) -> bytes:
        self.tally.refuse(code)
        return refusal(code)
