"""Devices that take turns in one process; those that Flower carries, for comparison."""

import threading
import time
from typing import Protocol

import httpx

from fedboard.client.fleet.answering_app import make_client_app
from fedboard.client.fleet.client_app import open_configured
from fedboard.client.fleet.node import WarmNode
from fedboard.client.node.settings import NodeSettings

_BEAT_SECONDS = 7.0


class Turns(Protocol):
    """Some devices."""

    def __len__(self) -> int: ...

    def turn(self, number: int) -> float:
        """One turn of one device; seconds until its next."""
        ...

    def told(self) -> dict[str, object]:
        """What they counted."""
        ...


class FlowerTurns:
    """Devices that Flower carries; one at a time, since Flower asks the process for the run of a message."""

    def __init__(self, settings: list[NodeSettings]) -> None:
        """Nothing is sent yet."""
        app = make_client_app(open_configured)
        self._nodes = [WarmNode(one, app) for one in settings]
        self._lock = threading.Lock()
        self._beats, self._failures = 0, 0
        self._active = set[int]()
        threading.Thread(target=self._beat, daemon=True).start()

    def __len__(self) -> int:
        return len(self._nodes)

    def turn(self, number: int) -> float:
        """As the warm node's own loop has it."""
        node = self._nodes[number]
        with self._lock:
            try:
                if number not in self._active:
                    node._connection.activate()
                    self._active.add(number)
                began = time.monotonic()
                while node._work():
                    began = time.monotonic()
                return node._pause(time.monotonic() - began)
            except Exception:
                self._failures += 1
                return 5.0

    def _beat(self) -> None:
        while True:
            began = time.monotonic()
            for number in list(self._active):
                try:
                    self._nodes[number]._connection.beat()
                    self._beats += 1
                except (httpx.HTTPError, ValueError, RuntimeError):
                    self._failures += 1
            time.sleep(max(0.1, _BEAT_SECONDS - (time.monotonic() - began)))

    def told(self) -> dict[str, object]:
        """What they counted."""
        return {
            "answered": sum(node.tally.answered for node in self._nodes),
            "given": sum(node.tally.given for node in self._nodes),
            "beats": self._beats,
            "requests_that_failed": self._failures,
        }
