"""What devices that come to the door are to answer, and what they answered: between them and the round loop.

In memory alone. Whoever is to answer is told by the round loop, and asked again where what he sent got lost with
this process; a device sends the same bytes again, so nothing is lost that anybody has given.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

MOST_HELD_BYTES = 1 << 28
"""Of answers that the round loop has not fetched; the next ones have to wait."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be answered; equal for all who get the same."""

    kind: str
    frame: bytes
    beside: bytes
    """The board, where it travels beside the frame; else empty."""


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


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device has sent."""

    number: int
    """In the order of their coming."""
    key: bytes
    content: bytes


class NoRoomError(Exception):
    """The answers that are here take all the room."""


@dataclass(slots=True)
class Mailbox:
    """Work by device, for one question or one step at a time, and the answers that came.

    Guarantee: of one device at most one answer is taken to each asking; what comes after the round loop has gone on
    to another question is not taken. An answer takes room as it arrives; a device has one on its way, of at most
    half the room, and none when the question is over.
    """

    clock: Callable[[], float] = time.monotonic
    most_held: int = MOST_HELD_BYTES
    epoch: str = field(default_factory=lambda: secrets.token_hex(16))
    """Another one in each process: where it changes, what was under way is lost."""
    _asking: str = ""
    _work: dict[bytes, Work] = field(default_factory=dict)
    _answers: deque[Answer] = field(default_factory=deque)
    _arriving: dict[bytes, asyncio.Timeout] = field(default_factory=dict)
    """By device: the time that its answer may still take to arrive."""
    _held: int = 0
    """Bytes of the answers, and of what has come of others."""
    _number: int = 0

    def ask(
        self, asking: str, messages: Mapping[bytes, Message], *, after: int, largest: int, seconds: float
    ) -> None:
        """Have these devices asked; one that is asked again before it has answered keeps the name of its work.

        Args:
            asking: name of the question or the step; another one than before ends what was.
            messages: by public key.
            after: number of the last answer that the round loop has: whose answer is on its way is not asked.
            largest: most bytes of an answer.
            seconds: how long an answer is worth anything.
        """
        if asking != self._asking:
            self.end()
            self._asking = asking
        until, coming = self.clock() + seconds, {one.key for one in self._answers if one.number > after}
        for key, message in messages.items():
            if key in coming:
                continue
            known = self._work.get(key)
            name = secrets.token_hex(16) if known is None else known.name
            self._work[key] = Work(name=name, message=message, largest=largest, until=until)

    def end(self) -> None:
        """Nothing is to be answered any more, and what was not fetched is forgotten."""
        self._asking = ""
        self._work.clear()
        self._held -= sum(len(answer.content) for answer in self._answers)
        self._answers.clear()
        for key in list(self._arriving):
            self._give_up(key)

    def work_of(self, key: bytes) -> Work | None:
        """What this device is to answer now."""
        work = self._work.get(key)
        return None if work is None or work.until < self.clock() else work

    def expects(self, key: bytes, name: str) -> Work | None:
        """The work of this name, if it is this device's and not answered."""
        work = self.work_of(key)
        return work if work is not None and secrets.compare_digest(work.name, name) else None

    @property
    def largest(self) -> int:
        """Most bytes of one answer, so that no device alone takes all the room."""
        return self.most_held // 2

    @contextmanager
    def arriving(self, key: bytes, within: asyncio.Timeout) -> Iterator[Callable[[int], None]]:
        """Room for an answer while it arrives; one of the same device that is still on its way is given up.

        Args:
            key: of the device.
            within: ends where the answer is given up.

        Yields:
            Takes so many bytes more; raises ``NoRoomError`` where there is no room for them.
        """
        self._give_up(key)
        self._arriving[key], taken = within, 0

        def take(n_bytes: int) -> None:
            nonlocal taken
            if self._held + n_bytes > self.most_held:
                raise NoRoomError
            self._held += n_bytes
            taken += n_bytes

        try:
            yield take
        finally:
            self._held -= taken
            if self._arriving.get(key) is within:
                del self._arriving[key]

    def _give_up(self, key: bytes) -> None:
        if (within := self._arriving.pop(key, None)) is not None:
            with suppress(RuntimeError):  # it is over already
                within.reschedule(0.0)

    def put(self, key: bytes, name: str, content: bytes) -> bool:
        """Take an answer; False where nobody waits for it, or another one was taken."""
        if self.expects(key, name) is None:
            return False
        del self._work[key]
        self._number += 1
        self._held += len(content)
        self._answers.append(Answer(self._number, key, content))
        return True

    def fetch(self, asking: str, *, after: int, most_bytes: int) -> list[Answer]:
        """Answers to this asking that came after the one of this number, the oldest first; those before are
        forgotten, since the round loop has them.

        Args:
            asking: its name.
            after: number of the last one that the round loop has; 0 for none.
            most_bytes: of all together, unless the first one has more.
        """
        if asking != self._asking:
            return []
        while self._answers and self._answers[0].number <= after:
            self._held -= len(self._answers.popleft().content)
        found, total = list[Answer](), 0
        for answer in self._answers:
            total += len(answer.content)
            if found and total > most_bytes:
                break
            found.append(answer)
        return found
