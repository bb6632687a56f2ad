"""What a session costs its server's side: CPU time, so that other work on the machine counts little.

Everything that a protocol does is timed, its cryptography and the making of messages included; carrying is not.
"""

from collections.abc import Callable, Iterator, Mapping
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
