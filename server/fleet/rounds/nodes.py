"""Whom a round asks, whatever carries its messages: the server's port, a grid of Flower's, or this process.

A node is known by its identity: on a fleet of devices its public key, as 64 hex digits. One thread asks, one
question or one step at a time.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import NamedTuple, Protocol

from fedboard.common.messages.refusals import Refusal
from fedboard.server.fleet.mailbox import Mailbox, Message
from fedboard.server.fleet.register import Register


class HaltedError(BaseException):
    """Whoever asks is to stop at once, wherever they wait; what is begun is gone on with later."""


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


class MemberNodes:
    """The devices of a fleet: those that its register admits, by the mailbox that its port fills.

    Guarantee: together those who are admitted never host more users than the sums were sized for: whoever came
    later than that is left out. A device that was removed is not among them from then on.
    """

    def __init__(self, mailbox: Mailbox, register: Path, *, most_users: int, halt: Event) -> None:
        """Open the register, which is read anew each time that it has changed.

        Args:
            mailbox: where devices fetch what they are asked, and lay down what they answer.
            register: its file.
            most_users: that may be admitted together.
            halt: while it is set, whatever is asked of the nodes raises ``HaltedError``.

        Raises:
            StorageError: the register cannot be used, so nobody would be known to be admitted.
        """
        self._mailbox, self._most_users, self._halt = mailbox, most_users, halt
        self._files = ExitStack()
        self._register = self._files.enter_context(Register(register))
        self._state: tuple[int, int] | None = None
        self._now: dict[str, int] = {}

    def present(self) -> Mapping[str, int]:
        """Those who come to the port and are not overdue."""
        admitted = self.admitted()
        return {key: admitted[key] for key in self._mailbox.present() if key in admitted}

    def admitted(self) -> Mapping[str, int]:
        """Of all members, in the order of their coming."""
        self.go_on()
        if (state := self._register.state()) != self._state:
            self._now, self._state = self._read(), state
        return self._now

    def exchange(self, *, largest: int) -> Exchange:
        """One question at a time: this one takes the place of the one before."""
        self.go_on()
        return _MailboxExchange(self._mailbox, largest, self.go_on)

    def go_on(self) -> None:
        """Raise HaltedError if halted."""
        if self._halt.is_set():
            raise HaltedError

    def close(self) -> None:
        """Nobody is asked any more."""
        self._mailbox.end()
        self._files.close()

    def _read(self) -> dict[str, int]:
        found, users = dict[str, int](), 0
        for member in self._register.admitted():
            users += member.max_users
            if users > self._most_users:
                break
            found[member.key] = member.max_users
        return found


@dataclass(frozen=True, slots=True)
class _MailboxExchange:
    mailbox: Mailbox
    largest: int
    go_on: Callable[[], None]

    def send(self, frames: Mapping[str, bytes], *, beside: bytes | None, kind: str, seconds: float) -> None:
        self.go_on()
        messages = {key: Message(kind, frame, beside or b"") for key, frame in frames.items()}
        self.mailbox.ask(messages, largest=self.largest, seconds=seconds)

    def replies(self, *, wait: float) -> list[Reply]:
        found = [Reply(answer.key, answer.content) for answer in self.mailbox.answers(wait=wait)]
        self.go_on()  # what came is gone; it is asked for again
        return found

    def close(self) -> None:
        self.mailbox.end()
