"""Whom a round asks, whatever carries its messages: the server's port, a grid of Flower's, or this process.

A node is known by its identity: on a fleet of devices its public key, as 64 hex digits. One thread asks, one
question or one step at a time.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from fedboard.common.wire.refusals import Refusal


class Reply(NamedTuple):
    """What came back from a node: its bytes, or why there are none."""

    node: str
    content: bytes | None
    failure: Refusal | None = None


class Exchange(Protocol):
    """One question, or one step, to some nodes."""

    def send(self, frames: Mapping[str, bytes], *, beside: bytes | None, kind: str, seconds: float) -> None:
        """Have each node asked; one that is asked again before it has answered answers once.

        Args:
            frames: by identity.
            beside: the board that travels beside each of them; None: none does.
            kind: of the messages.
            seconds: how long a reply is worth anything.
        """
        ...

    def replies(self, *, wait: float) -> list[Reply]:
        """What has come since the last call.

        Args:
            wait: most seconds that are waited for the first one.
        """
        ...

    def close(self) -> None:
        """Nobody is asked any more; what comes later is never looked at."""
        ...


class Nodes(Protocol):
    """Who can be asked."""

    def present(self) -> Mapping[str, int]:
        """Identity of each node that is there and admitted -> most users that it may host."""
        ...

    def admitted(self) -> Mapping[str, int]:
        """The same of all that are admitted at this moment, there or not."""
        ...

    def exchange(self, *, largest: int) -> Exchange:
        """For one question or one step.

        Args:
            largest: most bytes of a reply; a larger one is not taken.
        """
        ...

    def close(self) -> None:
        """Nobody is asked any more."""
        ...
