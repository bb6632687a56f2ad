"""What a session costs its server's side: CPU time, so that other work on the machine counts little.

Everything that a protocol does is timed, its cryptography and the making of messages included; carrying is not.

What the sessions of a simulation cost: bytes and CPU time of clients and of the server's side.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time

from fedboard.common.protocol import ExactSums, ServerSession


class Stopwatch:
    """CPU seconds so far."""

    def __init__(self) -> None:
        """None yet."""
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what happens meanwhile."""
        began = process_time()
        try:
            yield
        finally:
            self.seconds += process_time() - began


class TimedSession:
    """A server's side that is timed, its opening included; all the rest is the session's own."""

    def __init__(self, opened: Callable[[], ServerSession]) -> None:
        """Open it.

        Raises:
            FedboardError: whatever opening raises.
        """
        self.watch = Stopwatch()
        with self.watch.running():
            self._session = opened()

    @property
    def asks_contributions(self) -> bool:
        """The session's."""
        return self._session.asks_contributions

    def outgoing(self) -> Mapping[str, bytes]:
        """The session's; a message that is made when it is looked up is timed then."""
        with self.watch.running():
            return _TimedMessages(self._session.outgoing(), self.watch)

    def take(self, client: str, reply: bytes) -> None:
        """The session's."""
        with self.watch.running():
            self._session.take(client, reply)

    def proceed(self) -> bool:
        """The session's."""
        with self.watch.running():
            return self._session.proceed()

    def sums(self) -> ExactSums:
        """The session's."""
        with self.watch.running():
            return self._session.sums()


@dataclass(frozen=True, slots=True)
class _TimedMessages(Mapping[str, bytes]):
    messages: Mapping[str, bytes]
    watch: Stopwatch

    def __getitem__(self, client: str) -> bytes:
        with self.watch.running():
            return self.messages[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """One step of a session."""

    asks_contributions: bool
    asked: int
    """Clients."""
    replied: int
    bytes_up: int
    """Of all replies."""
    bytes_down: int
    """Of the messages to those that reply; without the board."""
    client_seconds: float
    """CPU time of all clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCosts:
    """One client, over some steps: means over those that replied."""

    seconds: float = 0.0
    up: float = 0.0
    down: float = 0.0
    steps: int = 0

    def __add__(self, other: "ClientCosts") -> "ClientCosts":
        """Both."""
        return ClientCosts(
            seconds=self.seconds + other.seconds,
            up=self.up + other.up,
            down=self.down + other.down,
            steps=self.steps + other.steps,
        )


def client_costs(steps: Sequence[StepCost]) -> ClientCosts:
    """Of one client that stays in all of these steps."""
    found = ClientCosts()
    for step in steps:
        there = max(1, step.replied)
        seconds, up, down = step.client_seconds / there, step.bytes_up / there, step.bytes_down / there
        found += ClientCosts(seconds=seconds, up=up, down=down, steps=1)
    return found
