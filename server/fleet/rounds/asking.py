"""Asking nodes until enough of them are settled: what is lost on the way is asked for again, what is bad counts."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.server.fleet.rounds.exchange import Exchange, Reply
from fedboard.server.fleet.rounds.pace import Pace
from fedboard.server.fleet.rounds.quorum import Node, Roster

_PASSING = frozenset({Refusal.UNREACHABLE, Refusal.INTERNAL, Refusal.MALFORMED})
"""A node that failed in this way may do better when it is asked again."""
_MOST_FAILURES = 10
"""Of one question, before a node that is there is given up."""
_LOOK_FOR_NODES_SECONDS = 2.0
_TIMES_A_LOOK, _LONGEST_PAUSE = 2.0, 5.0
"""A SuperLink that is slow is asked less: the least pause between two looks, in the time that one takes; in s."""


@dataclass(slots=True, kw_only=True)
class Asking:
    """One question, or one step, to some nodes."""

    roster: Roster
    exchange: Exchange
    send: Callable[[list[int], float], None]
    """Asks these nodes; what they say is worthless after so many seconds."""
    take: Callable[[Node, bytes], None]
    """Takes what a node sent; raises RefusedError."""
    complete: Callable[[set[int], set[int], float], bool]
    """(settled nodes, nodes that are there, seconds since the start) -> whether nobody is waited for."""
    pace: Pace
    """Is told how long answers took; says how long they are waited for."""
    again: Callable[[], bool]
    """Whether, once the time is over, whoever has not answered is to be asked again: it is needed and may help."""
    attempts: int = 1
    """How often they are asked at most, with a time of its own each time."""
    newcomers: bool = True
    """Whether a node that comes meanwhile is asked too."""
    progress: Callable[[int], None] = lambda _: None
    """Is told how many are settled."""
    refused: Counter[Refusal] = field(default_factory=Counter)
    """How often something was not taken, by code."""
    declined: dict[str, Refusal] = field(default_factory=dict)
    """What a node that is settled has refused with, by identity."""
    attempt: int = 1
    """Which one is under way."""
    _failures: Counter[str] = field(default_factory=Counter)
    _first_asked: dict[int, float] = field(default_factory=dict)

    def run(self, nodes: dict[int, Node], *, seconds: float) -> None:
        """Ask these nodes, until complete or the time is over; nodes may come and go meanwhile.

        Args:
            nodes: by Flower's number.
            seconds: how long answers are waited for, at least; ``Pace.patience`` may give them more.
        """
        job = self.roster.job
        settled, known, present = set[int](), dict(nodes), set(nodes)
        began = looked = time.monotonic()
        until = began + self.pace.patience(seconds)
        self._ask(set(known), until)
        while True:
            looked_at = time.monotonic()
            for reply in self.exchange.replies():
                settled |= self._settled(reply, known[reply.node_id])
            self.progress(len(settled))
            now = time.monotonic()
            if self.complete(settled, present, now - began):
                break
            if now >= until:
                if self.attempt >= self.attempts or not self.again():
                    break
                self.attempt += 1
                until = now + self.pace.patience(seconds, attempt=self.attempt)
                self._ask((present & set(known)) - settled, until)
            took = time.monotonic() - looked_at
            time.sleep(max(job.rounds.poll_seconds, min(_TIMES_A_LOOK * took, _LONGEST_PAUSE)))
            if (now := time.monotonic()) - looked >= min(_LOOK_FOR_NODES_SECONDS, job.rounds.resend_seconds):
                found = self.roster.present()
                looked, present = now, set(found)
                known |= found if self.newcomers else {}
                recently = self.exchange.waiting_for(since=now - job.rounds.resend_seconds)
                self._ask((present & set(known)) - settled - recently, until)
        self.refused[Refusal.LATE] += len(self.exchange.waiting_for() - settled)
        self.exchange.forget()

    def _ask(self, nodes: set[int], deadline: float) -> None:
        now = time.monotonic()
        for number in nodes:
            self._first_asked.setdefault(number, now)
        if nodes:
            self.send(sorted(nodes), max(1.0, deadline - time.monotonic()))

    def _settled(self, reply: Reply, node: Node) -> set[int]:
        """The node, where its reply settles it: one that counts, or a refusal that will not pass."""
        if reply.heard:
            self.roster.hear(node.name)
        try:
            if not self.roster.admits(node.name):  # it was removed since it was asked
                raise RefusedError(Refusal.UNKNOWN_NODE)
            if reply.content is None:
                raise RefusedError(reply.failure or Refusal.MALFORMED)
            self.take(node, reply.content)
            self.pace.took(time.monotonic() - self._first_asked[reply.node_id])
        except RefusedError as refused:
            self.refused[refused.code] += 1
            lost = refused.code is Refusal.UNREACHABLE and self.roster.job.nodes is not None
            self._failures[node.name] += not lost  # a device may come back; a simulated node failed
            if refused.code in _PASSING and self._failures[node.name] < _MOST_FAILURES:
                return set()
            self.declined[node.name] = refused.code
        return {reply.node_id}
