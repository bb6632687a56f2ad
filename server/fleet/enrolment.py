"""The part of the service that strangers may use: a device introduces itself with an invitation, and is a member.

What the server hands over first is public; what a device sends then is looked at only as often as the limits allow,
is small, and admits it in one transaction of the register.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path

from fedboard.common.messages.devices_pb2 import JoinReply
from fedboard.common.messages.enrolment import Candidate, JoinError, JoinRefusal, digest_of_introduction
from fedboard.server.fleet.register import Capacity, Register
from fedboard.server.publishing.limits import network_of

_MOST_SENDERS = 20_000
"""Before those who have everything back are forgotten; strangers are without number."""


class Allowance:
    """Of each sender; one that has used up hers waits until it has come back."""

    def __init__(self, *, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Make ready; everybody has a whole minute's.

        Args:
            per_minute: > 0.
            clock: seconds.
        """
        self._most, self._clock = per_minute, clock
        self._used: dict[Hashable, tuple[float, float]] = {}
        """By sender: when she was last seen, and what was used up then and has not come back."""
        self._next_look = 0.0

    def take(self, sender: Hashable, amount: int) -> bool:
        """Use up so many; False, and nothing is used, if the sender has no more than fewer left."""
        now = self._clock()
        if len(self._used) >= _MOST_SENDERS and now >= self._next_look:
            self._next_look = now + 1.0
            self._used = {who: (seen, used) for who, (seen, used) in self._used.items() if now - seen < 60.0}
        seen, used = self._used.get(sender, (now, 0.0))
        used = max(0.0, used - (now - seen) * self._most / 60.0)
        fits = used + amount <= self._most
        self._used[sender] = (now, used + amount * fits)
        return fits


_ALL = "all"


@dataclass(slots=True, kw_only=True)
class Enrolment:
    """Admits devices. Nothing of a request is logged; what becomes of it is counted by code."""

    introduction: bytes
    """What is handed over; an invitation holds for this and no other."""
    register: Path
    """File of the register, which each request opens in a thread of its own."""
    capacity: Capacity
    joined: Callable[[str], None] = lambda _: None
    """Is told the name of each new member."""
    of_all: Allowance = field(default_factory=lambda: Allowance(per_minute=300))
    """How many requests of strangers are looked at."""
    of_one: Allowance = field(default_factory=lambda: Allowance(per_minute=10))
    """And of one address."""
    counts: Counter[str] = field(default_factory=Counter)
    """Requests to join, by what became of them: ``joined``, or a code."""

    def hears(self, peer: str) -> bool:
        """Whether a request is looked at at all; if so, it is counted.

        Args:
            peer: from where it comes, as gRPC writes it.
        """
        if self.of_one.take(network_of(peer), 1) and self.of_all.take(_ALL, 1):
            return True
        self.counts[JoinRefusal.TOO_OFTEN] += 1
        return False

    async def join(self, content: bytes) -> JoinReply:
        """What is said to a request that was read whole.

        Raises:
            sqlite3.Error: the register cannot be used; nobody was admitted.
            StorageError: the same.
        """
        try:
            joined = await asyncio.to_thread(self.admit, content)
        except JoinError as error:
            self.counts[error.code] += 1
            return JoinReply(refused=error.code.value)
        self.counts["joined"] += 1
        self.joined(joined.name)
        return joined

    def admit(self, content: bytes) -> JoinReply:
        """Make a member of who asks; in any thread.

        Raises:
            JoinError: they are not admitted.
            StorageError: the register cannot be used.
        """
        candidate = Candidate.read(content, introduction=digest_of_introduction(self.introduction))
        with Register(self.register) as register:
            member = register.join(
                candidate.secret,
                candidate.key,
                capacity=self.capacity,
                version=candidate.version,
                identity=candidate.identity,
            )
        return JoinReply(name=member.name, max_users=member.max_users)
