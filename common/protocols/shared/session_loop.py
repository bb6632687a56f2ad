"""The one loop over a protocol's session: ask, take, close the step. Whoever runs sessions brings a way to carry
messages: in one process, to workers, or over a network.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fedboard.common.protocol import ExactSums, ServerSession
from fedboard.common.wire.refusals import Refusal, RefusedError


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
