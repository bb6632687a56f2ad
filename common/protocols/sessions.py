"""What a device brings to a protocol whose clients are vouched for: its identity, and whom it believes.

The one loop over a protocol's session: ask, take, close the step. Whoever runs sessions brings a way to carry
messages: in one process, to workers, or over a network.

Protocols of one step: every client sends one message, and the server adds up what it can read.

A new protocol of this kind is two functions; see docs/guide/writing-a-protocol.md.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedboard.common.boards.roster import IdentityKey, Roster
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocol import ExactSums, Given, ServerSession


def admit_any(roster: Roster) -> None:
    """Any list that its authority has signed and that still holds."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Voucher:
    """A device's identity, and whom it believes about other devices."""

    identity: IdentityKey
    authority: bytes
    """Public key of the authority whose lists it takes, 32 bytes; pinned, whatever a server says."""
    admit: Callable[[Roster], None] = admit_any
    """Refuses, by ``RefusedError``, a list that is older than one that was seen."""
    clock: Callable[[], float] = time.time

    def roster(self, content: bytes) -> Roster:
        """The list of a session.

        Args:
            content: from a server that need not be honest.

        Raises:
            RefusedError: ``other-roster``: not signed by the authority, over, older than one that was seen, or one
                that does not name this device.
        """
        try:
            roster = Roster.read(content, authority=self.authority)
        except InputError:
            raise RefusedError(Refusal.OTHER_ROSTER) from None
        if roster.until < self.clock() or roster.place(self.identity.public) is None:
            raise RefusedError(Refusal.OTHER_ROSTER)
        self.admit(roster)
        return roster


@dataclass(slots=True, kw_only=True)
class OpenStep:
    """One step of a session, from when it asks until it is closed."""

    number: int
    """From 0."""
    asks_contributions: bool
    """Whether it asks for what clients give; the board travels with its messages."""
    messages: Mapping[str, bytes]
    """By client; one may be made when it is looked up, and may be to somebody who is out."""
    asked: frozenset[str]
    """Who is asked: all that it has a message for and that are not out."""
    taken: set[str] = field(default_factory=set)
    """Of these, whose reply counts."""
    _session: ServerSession

    def take(self, client: str, reply: bytes) -> None:
        """Take a client's reply.

        Args:
            client: its authenticated identity.
            reply: from a client that need not be honest.

        Raises:
            RefusedError: it does not count; nothing has changed.
        """
        if client not in self.asked:
            raise RefusedError(Refusal.UNKNOWN_NODE)
        self._session.take(client, reply)
        self.taken.add(client)


Carry = Callable[[OpenStep], None]
"""Brings everybody whom a step asks her message, and back what she replies: to ``take``, while the step is open."""


@dataclass(slots=True, kw_only=True)
class SessionLoop:
    """A session on its way.

    Guarantee: who did not reply to a step while it was open, or whose reply did not count, is out: never asked
    again, and nothing that she says later is taken, whatever the session would ask.
    """

    session: ServerSession
    """Just opened."""
    out: set[str] = field(default_factory=set)
    """Who is, so far."""

    def run(self, carry: Carry) -> ExactSums:
        """Run the session to its end.

        Raises:
            TooFewAnswersError: too few replies are left.
        """
        for step in self.steps():
            carry(step)
        return self.session.sums()

    def steps(self) -> Iterator[OpenStep]:
        """Each step, which is closed when the next one is asked for; who asks for no more gives the session up.

        Raises:
            TooFewAnswersError: too few replies are left.
        """
        number, more = 0, True
        while more:
            asks, messages = self.session.asks_contributions, self.session.outgoing()
            step = OpenStep(
                number=number,
                asks_contributions=asks,
                messages=messages,
                asked=frozenset(messages) - self.out,
                _session=self.session,
            )
            yield step
            self.out |= step.asked - step.taken
            more, number = self.session.proceed(), number + 1


def _bound_to(about: bytes) -> bytes:
    """What question and replies of a round begin with, so that none of them passes for one of another round."""
    return hashlib.sha256(b"fedboard one step 1\n" + about).digest()


class Adding(Protocol):
    """Adds messages up."""

    def add(self, message: bytes) -> None:
        """Add one client's message.

        Raises:
            RefusedError: it does not count; nothing has changed.
        """
        ...

    def sums(self) -> ExactSums:
        """The sums of all messages."""
        ...


@dataclass(slots=True, kw_only=True)
class OneStepServer:
    """The server's side: asks everybody once."""

    about: bytes
    """The round, as in ``AggregationProtocol.open``."""
    clients: Sequence[str]
    adding: Adding
    least: int = 1
    """Fewest clients that make a sum."""
    asks_contributions: bool = True
    _taken: set[str] = field(default_factory=set)
    _asked: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Know whom it asks."""
        self._asked = frozenset(self.clients)

    def outgoing(self) -> dict[str, bytes]:
        """The same few bytes to everybody."""
        return dict.fromkeys(self.clients, _bound_to(self.about))

    def take(self, client: str, reply: bytes) -> None:
        """Take a client's only message.

        Raises:
            RefusedError: nobody asked it, it replied before or to another round, or its message does not count.
        """
        if client not in self._asked:
            raise RefusedError(Refusal.UNKNOWN_NODE)
        if client in self._taken:
            raise RefusedError(Refusal.DUPLICATE)
        bound = _bound_to(self.about)
        if reply[: len(bound)] != bound:
            raise RefusedError(Refusal.WRONG_ROUND)
        self.adding.add(reply[len(bound) :])
        self._taken.add(client)

    def proceed(self) -> bool:
        """There is no other step.

        Raises:
            TooFewAnswersError: fewer replied than make a sum.
        """
        if len(self._taken) < self.least:
            raise TooFewAnswersError(
                f"{len(self._taken)} clients answered and at least {self.least} make a sum; nothing was released",
                given=True,
            )
        return False

    def sums(self) -> ExactSums:
        """The sums of all messages."""
        return self.adding.sums()


@dataclass(slots=True, kw_only=True)
class OneStepClient:
    """A client's side: packs once what it gives, and repeats it when it is asked again."""

    about: bytes
    """The round, as in ``AggregationProtocol.join``."""
    pack: Callable[[Given], bytes]
    """Checks what is given and makes the message."""
    sent: bytes = b""
    """The reply, once it was made."""

    def answer(self, message: bytes, given: Given | None) -> bytes:
        """The client's message.

        Raises:
            PrivacyError: a row breaks its bound.
            RefusedError: the message is not the question.
        """
        bound = _bound_to(self.about)
        if message != bound or given is None:
            raise RefusedError(Refusal.MALFORMED)
        if not self.sent:
            self.sent = bound + self.pack(given)
        return self.sent

    def to_bytes(self) -> bytes:
        """What was sent, or nothing yet."""
        return self.sent
