"""What the door has seen of each device: when it was last there, what it sent, of which version it is."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedboard.common.files import write_atomically

_DEVICES_A_SECOND = 200.0
"""The file is written as often as this allows, so that ten thousand devices cost what one does."""
_VERSION_LETTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyz.+-")
_LONGEST_VERSION = 32
_COUNT_SECONDS = 5.0
"""Those who come directly are counted anew as often."""
_LATE_SECONDS = 30.0
_TIMES_A_PAUSE = 4.0
"""Whoever was away for longer has been away."""


@dataclass(slots=True)
class _Device:
    last: float = 0.0
    requests: int = 0
    answers: int = 0
    received: int = 0
    version: str = ""
    pause: float | None = None
    """Seconds after which it said that it comes again; None for one that comes by Flower."""
    between: float = 0.0
    """Seconds between its last two requests."""

    @property
    def may_be_silent(self) -> float:
        """Seconds after which it is no longer there: where devices or server are too busy for the pace that was
        told, they come as late again as they did last.
        """
        if self.pause is None:
            return 0.0
        return 2.0 * max(self.pause, min(self.between, _TIMES_A_PAUSE * self.pause)) + _LATE_SECONDS


@dataclass(slots=True)
class Seen:
    """Of each admitted device since this process began, by public key. For the operator."""

    clock: Callable[[], float] = time.time
    _devices: dict[bytes, _Device] = field(default_factory=dict)
    _direct: int = 0
    _counted: float = -math.inf

    def request(self, sender: bytes, *, answers: bool, version: bytes, pause: float | None = None) -> None:
        """It has sent a request.

        Args:
            sender: its public key.
            answers: whether the request brings an answer.
            version: of fedboard there, as it says.
            pause: seconds after which it comes again; None where it comes by Flower.
        """
        device = self._devices.setdefault(sender, _Device())
        now = self.clock()
        device.between = now - device.last if device.last else 0.0
        device.last = now
        device.requests += 1
        device.answers += answers
        device.version = _version_of(version)
        self._direct += pause is not None and device.pause is None
        device.pause = pause

    def here_directly(self) -> list[bytes]:
        """Devices that come without Flower, and are not overdue."""
        now = self.clock()
        return [
            key
            for key, device in self._devices.items()
            if device.pause is not None and now - device.last <= device.may_be_silent
        ]

    @property
    def direct(self) -> int:
        """How many those are; who stays away is counted for some seconds more."""
        if abs(self.clock() - self._counted) >= _COUNT_SECONDS:
            self._direct, self._counted = len(self.here_directly()), self.clock()
        return self._direct

    def received(self, sender: bytes, n_bytes: int) -> None:
        """So many bytes of it were taken."""
        if (device := self._devices.get(sender)) is not None:
            device.received += n_bytes

    def forget_others(self, keys: frozenset[bytes]) -> None:
        """Of devices that are no longer admitted nothing is kept."""
        self._devices = {key: device for key, device in self._devices.items() if key in keys}

    @property
    def pause(self) -> float:
        """Seconds between two times that it is written."""
        return max(5.0, len(self._devices) / _DEVICES_A_SECOND)

    def write(self, path: Path) -> None:
        """To a file, whole or not at all."""
        devices: dict[str, dict[str, Any]] = {
            key.decode(): {
                "last": device.last,
                "requests": device.requests,
                "answers": device.answers,
                "received_bytes": device.received,
                "version": device.version,
                "may_be_silent_seconds": device.may_be_silent,
            }
            for key, device in self._devices.items()
        }
        write_atomically(path, json.dumps({"written": self.clock(), "devices": devices}).encode())
        path.chmod(0o600)


def _version_of(text: bytes) -> str:
    found = text[: _LONGEST_VERSION + 1].decode("ascii", errors="replace")
    return found if len(found) <= _LONGEST_VERSION and _VERSION_LETTERS.issuperset(found) else ""
