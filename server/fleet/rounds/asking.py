"""Asking nodes until enough of them are settled: what is lost on the way is asked for again, what is bad counts.

Whom a round asks, whatever carries its messages; who is there, how long they are waited for, what they get.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.signing import QuestionKey
from fedboard.server.fleet.job import Job
from fedboard.server.fleet.mailbox import Mailbox, Message, Reply
from fedboard.server.fleet.register import Register
from fedboard.server.run_spec import LONGER

LOOK_SECONDS = 0.25
"""How often it is looked who is there; answers wake whoever waits for them."""
ASK_AGAIN_SECONDS = 2.0
"""How often a node is asked again that is there and has failed."""
_PASSING = frozenset({Refusal.UNREACHABLE, Refusal.INTERNAL, Refusal.MALFORMED})
"""A node that failed in this way may do better when it is asked again."""
_MOST_FAILURES = 10
"""Of one question, before a node that is there is given up."""
_SIGNED_SLACK_SECONDS = 2.0
"""So that sending a message again is no reason to sign it anew; the allowance for clocks is far larger."""


class HaltedError(BaseException):
    """Whoever asks is to stop at once, wherever they wait; what is begun is gone on with later."""


class Nodes(Protocol):
    """Who can be asked: by the server's port, over a grid of Flower's, or in this process. One thread asks, one
    question or one step at a time.

    A node is known by its identity: on a fleet of devices its public key, as 64 hex digits.
    """

    def present(self) -> Mapping[str, int]:
        """Identity of each node that is there and admitted -> most users that it may host."""
        ...

    def admitted(self) -> Mapping[str, int]:
        """The same of all that are admitted at this moment, there or not."""
        ...

    def ask(self, messages: Mapping[str, Message], *, largest: int, seconds: float) -> None:
        """Have each node asked; one that is asked again before it has answered answers once.

        Args:
            messages: by identity.
            largest: most bytes of a reply; a larger one is not taken.
            seconds: how long a reply is worth anything.
        """
        ...

    def replies(self, *, wait: float) -> list[Reply]:
        """What has come since the last call.

        Args:
            wait: most seconds that are waited for the first one.
        """
        ...

    def end(self) -> None:
        """Nobody is asked any more; what comes later to what was asked is never looked at."""
        ...


class MemberNodes:
    """The devices of a fleet: those that its register admits, by the mailbox that its port fills.

    Guarantee: together those who are admitted never host more users than the sums were sized for: whoever came
    later than that is left out. A device that was removed is not among them from then on.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        register: Path,
        *,
        most_users: int,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the register, which is read anew each time that it has changed.

        Args:
            mailbox: where devices fetch what they are asked, and lay down what they answer.
            register: its file.
            most_users: that may be admitted together.
            go_on: is called whenever something is asked of the nodes; raises where no round may go on.

        Raises:
            StorageError: the register cannot be used, so nobody would be known to be admitted.
        """
        self._mailbox, self._most_users, self._go_on = mailbox, most_users, go_on
        self._files = ExitStack()
        self._register = self._files.enter_context(Register(register))
        self._state: tuple[int, int] | None = None
        self._now: dict[str, int] = {}

    def present(self) -> Mapping[str, int]:
        """Those who come to the port and are not overdue."""
        admitted = self.admitted()
        return {key: admitted[key] for key in self._mailbox.seen.here() if key in admitted}

    def admitted(self) -> Mapping[str, int]:
        """Of all members, in the order of their coming."""
        self._go_on()
        if (state := self._register.state()) != self._state:
            self._now, self._state = self._read(), state
        return self._now

    def ask(self, messages: Mapping[str, Message], *, largest: int, seconds: float) -> None:
        """Lay each message ready for its device; it takes the place of the one before."""
        self._go_on()
        self._mailbox.ask(messages, largest=largest, seconds=seconds)

    def replies(self, *, wait: float) -> list[Reply]:
        """What devices have laid down."""
        found = self._mailbox.answers(wait=wait)
        self._go_on()  # what came is gone; it is asked for again
        return found

    def end(self) -> None:
        """Nothing is to be answered any more."""
        self._mailbox.end()

    def close(self) -> None:
        """Nobody is asked any more, and the register is closed."""
        self.end()
        self._files.close()

    def _read(self) -> dict[str, int]:
        found, users = dict[str, int](), 0
        for member in self._register.admitted():
            users += member.max_users
            if users > self._most_users:
                break
            found[member.key] = member.max_users
        return found


@dataclass(slots=True)
class Roster:
    """Who takes part in the round under way.

    Guarantee: a node that was admitted after a round began is not in it, so that whoever was removed and joins
    again with another key is in no round twice; a node that was removed is out of it at once.
    """

    nodes: Nodes
    job: Job
    _begun: frozenset[str] | None = None
    """Who was admitted when the round began."""

    def present(self) -> dict[str, int]:
        """The nodes of the round that are there: identity -> most users that they may host."""
        return {name: users for name, users in self.nodes.present().items() if self._was_there(name)}

    def admits(self, name: str) -> bool:
        """Whether what this node sends is taken in the round under way."""
        return self._was_there(name) and name in self.nodes.admitted()

    def can_answer(self, taken: Collection[str], declined: Collection[str]) -> int:
        """How many answers the round under way may still come to, removed nodes among those that were taken.

        Args:
            taken: nodes whose answer is in.
            declined: nodes that have refused for good.
        """
        in_round = {name for name in self.nodes.admitted() if self._was_there(name)}
        return len(set(taken) | (in_round - set(declined)))

    def when_enough(self) -> dict[str, int]:
        """The nodes that are there, once the expected number is, or the quorum and nobody more for a while: nodes
        still come when a run starts. With this a round begins: whoever is admitted later takes part in the next.

        Raises:
            TooFewAnswersError: fewer than the quorum were there until the longest deadline. Nobody was asked for
                anything, so nothing is spent.
        """
        pace, began = self.job.rounds, time.monotonic()
        self._begun = None
        while True:
            there = self.present()
            waited = time.monotonic() - began
            enough = len(there) >= pace.quorum and waited >= min(pace.grace_seconds, pace.deadline_seconds)
            if len(there) >= pace.expected_nodes or enough:
                self._begun = frozenset(self.nodes.admitted())
                return there
            if waited >= pace.longest_seconds:  # it costs nothing to wait for those who have given nothing
                raise TooFewAnswersError(
                    f"{len(there)} nodes are there and the quorum is {pace.quorum}; nobody was asked, and nothing "
                    "was spent",
                    asked=False,
                )
            time.sleep(LOOK_SECONDS)

    def _was_there(self, name: str) -> bool:
        return self._begun is None or name in self._begun


@dataclass(slots=True, kw_only=True)
class SignedMessage:
    """A question, or a step and the board beside it: signed when it is sent, and anew only where it has to last
    longer.
    """

    key: QuestionKey
    message: bytes
    beside: bytes = b""
    _content: bytes = field(default=b"", init=False)
    _until: float = field(default=float("-inf"), init=False)

    def lasting(self, seconds: float) -> bytes:
        """As it travels, to be answered for so long from now on."""
        until = time.monotonic() + seconds
        if until > self._until + _SIGNED_SLACK_SECONDS:
            self._content = self.key.sign(self.message, seconds=seconds, beside=self.beside or None)
            self._until = until
        return self._content


@dataclass(slots=True, kw_only=True)
class Asking:
    """One question, or one step, to some nodes."""

    roster: Roster
    kind: str
    """Of the message."""
    message: Callable[[str], SignedMessage]
    """To this node."""
    largest: int
    """Most bytes of an answer."""
    take: Callable[[str, int, bytes], None]
    """(node, most users that it may host, what it sent); raises RefusedError."""
    complete: Callable[[set[str], set[str], float], bool]
    """(settled nodes, nodes that are there, seconds since the start) -> whether nobody is waited for."""
    again: Callable[[], bool]
    """Whether, once the time is over, whoever has not answered is to be asked again: it is needed and may help."""
    attempts: int
    """How often they are asked at most, with a time of its own each time."""
    newcomers: bool = True
    """Whether a node that comes meanwhile is asked too."""
    refused: Counter[Refusal] = field(default_factory=Counter)
    """How often something was not taken, by code."""
    declined: dict[str, Refusal] = field(default_factory=dict)
    """What a node that is settled has refused with, by identity."""
    attempt: int = 1
    """Which one is under way."""
    _failures: Counter[str] = field(default_factory=Counter)
    _last_asked: dict[str, float] = field(default_factory=dict)
    _waiting: set[str] = field(default_factory=set)
    """Who was asked and has not replied."""

    def run(self, nodes: Mapping[str, int], *, seconds: float) -> None:
        """Ask these nodes, until complete or the time is over; nodes may come and go meanwhile.

        Args:
            nodes: identity -> most users that it may host.
            seconds: how long answers are waited for, the first time; twice as long each time they are asked again,
                up to ``LONGER`` times.
        """
        settled, known, present = set[str](), dict(nodes), set(nodes)
        began = looked = time.monotonic()
        until = began + seconds
        self._ask(set(known), until)
        while True:
            wait = max(0.0, min(LOOK_SECONDS, until - time.monotonic()))
            for reply in self.roster.nodes.replies(wait=wait):
                if reply.node in known:
                    settled |= self._settled(reply, known[reply.node])
            now = time.monotonic()
            if self.complete(settled, present, now - began):
                break
            if now >= until:
                if self.attempt >= self.attempts or not self.again():
                    break
                until = now + seconds * min(2.0 ** min(self.attempt, 10), LONGER)
                self.attempt += 1
                self._ask({name for name in known if self.roster.admits(name)} - settled, until)
            if now - looked >= LOOK_SECONDS:
                found = self.roster.present()
                looked, present = now, set(found)
                known |= found if self.newcomers else {}
                idle, long_ago = (present & set(known)) - settled - self._waiting, now - ASK_AGAIN_SECONDS
                self._ask({name for name in idle if self._last_asked.get(name, -math.inf) <= long_ago}, until)
        self.refused[Refusal.LATE] += len(self._waiting - settled)
        self.roster.nodes.end()

    def _ask(self, nodes: set[str], deadline: float) -> None:
        now = time.monotonic()
        if nodes:
            self._last_asked |= dict.fromkeys(nodes, now)
            self._waiting |= nodes
            seconds, signed = max(1.0, deadline - now), {name: self.message(name) for name in sorted(nodes)}
            messages = {
                name: Message(self.kind, one.lasting(seconds), one.beside) for name, one in signed.items()
            }
            self.roster.nodes.ask(messages, largest=self.largest, seconds=seconds)

    def _settled(self, reply: Reply, max_users: int) -> set[str]:
        """The node, where its reply settles it: one that counts, or a refusal that will not pass."""
        name = reply.node
        self._waiting.discard(name)
        try:
            if not self.roster.admits(name):  # it was removed since it was asked
                raise RefusedError(Refusal.UNKNOWN_NODE)
            if reply.content is None:
                raise RefusedError(reply.failure or Refusal.MALFORMED)
            self.take(name, max_users, reply.content)
        except RefusedError as refused:
            self.refused[refused.code] += 1
            self._failures[name] += 1
            if refused.code in _PASSING and self._failures[name] < _MOST_FAILURES:
                return set()
            self.declined[name] = refused.code
        return {name}
