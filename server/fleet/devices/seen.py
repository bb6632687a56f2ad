"""What the server has seen of each device: when it was last there, what it sent, of which version it is."""

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedboard.common.files import write_atomically

_DEVICES_A_SECOND = 200.0
"""The file is written as often as this allows, so that ten thousand devices cost what one does."""
_VERSION_LETTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyz.+-")
_LONGEST_VERSION = 32
_COUNT_SECONDS = 5.0
"""Those who are there are counted anew as often."""
_LATE_SECONDS = 30.0
_TIMES_A_PAUSE = 4.0
"""Whoever was away for longer has been away."""


@dataclass(slots=True, kw_only=True)
class SeenDevice:
    """Of one device since this process began."""

    last: float = 0.0
    """When it was there last, seconds since 1970 UTC."""
    requests: int = 0
    answers: int = 0
    received_bytes: int = 0
    version: str = ""
    """Of fedboard there, as it says."""
    pause: float = 0.0
    """Seconds after which it is to come again."""
    between: float = 0.0
    """Seconds between its last two requests."""

    @property
    def may_be_silent_seconds(self) -> float:
        """After which it is no longer there: where devices or server are too busy for the pace that was told, they
        come as late again as they did last.
        """
        return 2.0 * max(self.pause, min(self.between, _TIMES_A_PAUSE * self.pause)) + _LATE_SECONDS


@dataclass(slots=True)
class Seen:
    """Of each admitted device, by public key; any thread may ask."""

    clock: Callable[[], float] = time.time
    _devices: dict[str, SeenDevice] = field(default_factory=dict)
    _count: tuple[float, int] = (float("-inf"), 0)
    """How many were there, and when they were counted."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def asks(self, key: str, *, version: str, pause: float) -> None:
        """It has asked for work.

        Args:
            key: of the device.
            version: of fedboard there, as it says.
            pause: seconds after which it is to come again.
        """
        now = self.clock()
        with self._lock:
            device = self._devices.get(key)
            if device is None:
                device = self._devices[key] = SeenDevice()
                self._count = (self._count[0], self._count[1] + 1)
            device.between = now - device.last if device.last else 0.0
            device.last, device.pause = now, pause
            device.requests += 1
            device.version = _version_of(version)

    def answers(self, key: str) -> None:
        """It has begun to hand in an answer; only who was asked does, and was here."""
        with self._lock:
            if (device := self._devices.get(key)) is not None:
                device.last = self.clock()
                device.requests += 1
                device.answers += 1

    def received(self, key: str, n_bytes: int) -> None:
        """So many bytes of it were taken."""
        with self._lock:
            if (device := self._devices.get(key)) is not None:
                device.received_bytes += n_bytes

    def here(self) -> list[str]:
        """Devices that are not overdue; where the clock was put back, those that have come since."""
        now = self.clock()
        return [
            key for key, device in self.devices() if abs(now - device.last) <= device.may_be_silent_seconds
        ]

    @property
    def n_here(self) -> int:
        """How many those are; who stays away is counted for some seconds more."""
        now = self.clock()
        if abs(now - self._count[0]) >= _COUNT_SECONDS:
            found = len(self.here())
            with self._lock:
                self._count = (now, found)
        return self._count[1]

    def devices(self) -> list[tuple[str, SeenDevice]]:
        """Each that has come, by public key."""
        with self._lock:
            return list(self._devices.items())

    def forget_others(self, keys: Collection[str]) -> None:
        """Of devices that are no longer admitted nothing is kept."""
        with self._lock:
            self._devices = {key: device for key, device in self._devices.items() if key in keys}

    @property
    def pause(self) -> float:
        """Seconds between two times that it is written."""
        return max(5.0, len(self._devices) / _DEVICES_A_SECOND)

    def write(self, path: Path, *, under_way: Mapping[str, object] | None = None) -> None:
        """To a file, whole or not at all, for ``fedboard fleet status``, which is another process.

        Args:
            path: of the file.
            under_way: what ``Mailbox.under_way`` says of the question that devices are answering.
        """
        devices = {
            key: {**asdict(device), "may_be_silent_seconds": device.may_be_silent_seconds}
            for key, device in self.devices()
        }
        write_atomically(
            path, json.dumps({"written": self.clock(), "devices": devices, "under_way": under_way}).encode()
        )
        path.chmod(0o600)


def _version_of(text: str) -> str:
    return text if len(text) <= _LONGEST_VERSION and _VERSION_LETTERS.issuperset(text) else ""
