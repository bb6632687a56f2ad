"""What devices are to answer, what they answered, and what the server has seen of them.

Between the event loop, which puts, and the round loop's thread, which asks and takes. In memory alone. Whoever is
to answer is told by the round loop, and asked again where what they sent got lost with this process; a device sends
the same bytes again, so nothing is lost that anybody has given.
"""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from fedboard.common.files import write_atomically
from fedboard.common.messages.refusals import Refusal

_DEVICES_A_SECOND = 200.0
"""The file is written as often as this allows, so that ten thousand devices cost what one does."""
_VERSION_LETTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyz.+-")
_LONGEST_VERSION = 32
_COUNT_SECONDS = 5.0
"""Those who are there are counted anew as often."""
_LATE_SECONDS = 30.0
_TIMES_A_PAUSE = 4.0
"""Whoever was away for longer has been away."""


class SeenDevice(msgspec.Struct, frozen=True):
    """Of one device since this process began."""

    last: float
    """When it was there last, seconds since 1970 UTC."""
    version: str
    """Of fedboard there, as it says; empty where that is none."""
    may_be_silent_seconds: float
    """After which it is no longer there: where devices or server are too busy for the pace that was told, they come
    as late again as they did last."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How the round that is under way stands."""

    asked: int
    """Devices that are asked just now; 0 while the server computes."""
    waiting: list[str]
    """Those of them that have not answered, by public key."""
    until: float
    """When their time is over, seconds since 1970 UTC."""


class SeenFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the port has seen, for ``fedboard fleet status``, which is another process; JSON."""

    written: float
    """Seconds since 1970 UTC."""
    devices: dict[str, SeenDevice]
    under_way: Standing | None = None
    """None between rounds."""


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
        fits = len(version) <= _LONGEST_VERSION and _VERSION_LETTERS.issuperset(version)
        with self._lock:
            before = self._devices.get(key)
            if before is None:
                self._count = (self._count[0], self._count[1] + 1)
            between = 0.0 if before is None else min(now - before.last, _TIMES_A_PAUSE * pause)
            silent = 2.0 * max(pause, between) + _LATE_SECONDS
            self._devices[key] = SeenDevice(now, version if fits else "", silent)

    def answers(self, key: str) -> None:
        """It has begun to hand in an answer; only who was asked does, and was here."""
        with self._lock:
            if (device := self._devices.get(key)) is not None:
                self._devices[key] = msgspec.structs.replace(device, last=self.clock())

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

    def write(self, path: Path, *, under_way: Standing | None = None) -> None:
        """To a file, whole or not at all.

        Args:
            path: of the file.
            under_way: what ``Mailbox.under_way`` says of the round.
        """
        told = SeenFile(written=self.clock(), devices=dict(self.devices()), under_way=under_way)
        write_atomically(path, msgspec.json.encode(told))
        path.chmod(0o600)


MOST_HELD_BYTES = 1 << 28
"""Of answers that the round loop has not taken; the next ones have to wait."""

GiveUp = Callable[[], None]
"""Ends what is on its way, from whatever thread; what is over already does not mind."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be answered; equal for all who get the same."""

    kind: str
    frame: bytes
    beside: bytes = b""
    """The board, where it travels beside the frame; else empty."""

    @property
    def n_bytes(self) -> int:
        """Of all of it."""
        return len(self.frame) + len(self.beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One message to one device."""

    name: str
    """By which its answer is known; random."""
    message: Message
    largest: int
    """Most bytes of the answer."""
    until: float
    """When it is worthless, by the mailbox's clock."""


class Reply(NamedTuple):
    """What came back from a node: its bytes, or why there are none."""

    node: str
    """Its identity: on a fleet of devices its public key, as 64 hex digits."""
    content: bytes | None
    failure: Refusal | None = None


class NoRoomError(Exception):
    """The answers that are here take all the room."""


@dataclass(slots=True)
class Mailbox:
    """Work by device, for one question or one step at a time, and the answers that came. Any thread may use it.

    Guarantee: of one device at most one answer is taken to each asking; what comes after the round loop has gone on
    to another question is not taken. An answer takes room as it arrives; a device has one on its way, of at most
    half the room, and none when the question is over.
    """

    seen: Seen = field(default_factory=Seen)
    """Who has come; of these are those present."""
    clock: Callable[[], float] = time.monotonic
    most_held: int = MOST_HELD_BYTES
    _work: dict[str, Work] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    """Who was asked the question that is under way."""
    _in_round: bool = False
    _answers: list[Reply] = field(default_factory=list)
    _arriving: dict[str, GiveUp] = field(default_factory=dict)
    """By device: what ends the answer that is on its way."""
    _held: int = 0
    """Bytes of the answers, and of what has come of others."""
    _ended: int = 0
    """How many questions have ended: whoever waits for answers to one of them waits in vain."""
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, messages: Mapping[str, Message], *, largest: int, seconds: float) -> None:
        """Have these devices asked; one that is asked again before it has answered keeps the name of its work, and
        one whose answer waits to be taken is not asked.

        Args:
            messages: by public key.
            largest: most bytes of an answer.
            seconds: how long an answer is worth anything.
        """
        with self._changed:
            until, coming = self.clock() + seconds, {answer.node for answer in self._answers}
            self._asked.update(messages)
            self._in_round = True
            for key, message in messages.items():
                if key in coming:
                    continue
                known = self._work.get(key)
                name = secrets.token_hex(16) if known is None else known.name
                self._work[key] = Work(name=name, message=message, largest=largest, until=until)

    def answers(self, *, wait: float) -> list[Reply]:
        """What came since the last call, the oldest first; its room is free again.

        Args:
            wait: seconds for the first one, unless the question ends before.
        """
        with self._changed:
            ended = self._ended
            self._changed.wait_for(lambda: self._answers or self._ended != ended, timeout=wait)
            return self._taken()

    def _taken(self) -> list[Reply]:
        found, self._answers = self._answers, []
        self._held -= sum(len(answer.content or b"") for answer in found)
        return found

    def end(self) -> None:
        """Nothing is to be answered any more; what was not taken is forgotten, and what is on its way given up."""
        with self._changed:
            self._work.clear()
            self._asked.clear()
            self._taken()
            arriving, self._arriving = self._arriving, {}
            self._ended += 1
            self._changed.notify_all()
        for give_up in arriving.values():
            give_up()

    def end_round(self) -> None:
        """The round is over: its board is published, or it was lost or interrupted."""
        self._in_round = False

    def under_way(self) -> Standing | None:
        """How the round that is under way stands; None between rounds."""
        with self._changed:
            if not self._in_round:
                return None
            last = max((work.until for work in self._work.values()), default=self.clock())
            until = self.seen.clock() + last - self.clock()
            return Standing(asked=len(self._asked), waiting=list(self._work), until=until)

    @property
    def held(self) -> int:
        """Bytes of the answers that are here, and of what has come of others."""
        return self._held

    @property
    def largest(self) -> int:
        """Most bytes of one answer, so that no device alone takes all the room."""
        return self.most_held // 2

    def work_of(self, key: str) -> Work | None:
        """What this device is to answer now."""
        with self._changed:
            work = self._work.get(key)
            return None if work is None or work.until < self.clock() else work

    def expects(self, key: str, name: str) -> Work | None:
        """The work of this name, if it is this device's and not answered."""
        work = self.work_of(key)
        matches = work is not None and secrets.compare_digest(work.name.encode(), name.encode())
        return work if matches else None

    @contextmanager
    def arriving(self, key: str, give_up: GiveUp) -> Iterator[Callable[[int], None]]:
        """Room for an answer while it arrives; one of the same device that is still on its way is given up.

        Args:
            key: of the device.
            give_up: ends this one, when its device sends another or the question is over.

        Yields:
            Takes so many bytes more; raises ``NoRoomError`` where there is no room for them.
        """
        with self._changed:
            older, self._arriving[key] = self._arriving.get(key), give_up
        if older is not None:
            older()
        taken = 0

        def take(n_bytes: int) -> None:
            nonlocal taken
            with self._changed:
                if self._held + n_bytes > self.most_held:
                    raise NoRoomError
                self._held += n_bytes
            taken += n_bytes

        try:
            yield take
        finally:
            with self._changed:
                self._held -= taken
                if self._arriving.get(key) is give_up:
                    del self._arriving[key]

    def put(self, key: str, name: str, content: bytes) -> bool:
        """Take an answer; False where nobody waits for it, or another one was taken."""
        with self._changed:
            if self.expects(key, name) is None:
                return False
            del self._work[key]
            self._held += len(content)
            self._answers.append(Reply(key, content))
            self._changed.notify_all()
            return True
