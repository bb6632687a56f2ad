"""Whether enough nodes are there to ask: those that Flower lists, a job admits, and that were just heard from."""

import math
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx
from flwr.serverapp import Grid

from fedboard.common.errors import TooFewAnswersError
from fedboard.common.rounds.question import HELLO
from fedboard.server.fleet.line.asking import Line
from fedboard.server.fleet.line.messages import LineError
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.rounds.admitted import Admitted
from fedboard.server.fleet.rounds.exchange import FIRST_DIRECT, Exchange, is_direct

_LARGEST_GREETING = 1 << 12
_LONGEST_PAUSE = 5.0
"""Between two looks at a SuperLink that is slow, seconds."""


class Node(NamedTuple):
    """One node of a fleet."""

    name: str
    """Its authenticated identity: its public key, or a simulated node's number."""
    max_users: int
    """Most users that it may host."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The nodes of a grid that a job admits.

    Flower lists a node for as long as two of its heartbeats may be missing, so one that is listed may be gone, or
    too busy to answer. Before a round asks anybody to give something, nodes that were not heard from for a while
    are greeted: whoever replies, with whatever, is there.
    """

    grid: Grid
    job: Job
    _listed: dict[int, Node] = field(default_factory=dict)
    _heard: dict[str, float] = field(default_factory=dict)
    """When a node last sent something (``time.monotonic``), by identity."""
    _admitted: Admitted = field(init=False)
    _line: Line | None = field(init=False)
    _direct: dict[str, int] = field(default_factory=dict)
    """Number of each device that came to the door itself, below those of Flower."""
    _there: set[str] = field(default_factory=set)
    """Those of them that are there."""

    def __post_init__(self) -> None:
        """Look up who is admitted, and where the door is."""
        object.__setattr__(self, "_admitted", Admitted(self.job))
        object.__setattr__(self, "_line", None if self.job.line is None else Line(Path(self.job.line)))

    def exchange(self, *, largest: int) -> Exchange:
        """For one question or one step to nodes of this roster.

        Args:
            largest: most bytes of a reply.
        """
        return Exchange(self.grid, largest=largest, line=self._line, keys=self._keys)

    def close(self) -> None:
        """Nobody is asked any more."""
        if self._line is not None:
            self._line.close()

    def _keys(self, numbers: Iterable[int]) -> dict[int, str]:
        """Public keys of those among these nodes that come to the door itself."""
        names = {number: name for name, number in self._direct.items()}
        return {number: names[number] for number in numbers if number in names}

    def admits(self, name: str) -> bool:
        """Whether what this node sends is taken in the round under way; in a simulation, always."""
        return self.job.nodes is None or name in self._admitted

    def can_answer(self, taken: Collection[str], declined: Collection[str]) -> int:
        """How many answers the round under way may still come to, removed nodes among those that were taken.

        Args:
            taken: nodes whose answer is in.
            declined: nodes that have refused for good.
        """
        if self.job.nodes is None:
            return self.job.rounds.expected_nodes - len(set(declined) - set(taken))
        return len(set(taken) | (self._admitted.in_round().keys() - set(declined)))

    def present(self) -> dict[int, Node]:
        """The nodes that are listed, by Flower's number; those listed last where the link is down. Nodes that were
        not admitted are not asked.
        """
        try:
            found = self._now_listed()
        except (OSError, httpx.HTTPError):
            return dict(self._listed)
        self._listed.clear()
        self._listed.update(found)
        return found

    def hear(self, name: str) -> None:
        """Take note that this node has sent something."""
        self._heard[name] = time.monotonic()

    def when_enough(self) -> dict[int, Node]:
        """The nodes that were heard from, once the expected number was, or the quorum and nobody more for a while:
        nodes still register when a run starts, and some come late. In a simulation whoever is listed is there. With
        this a round begins: whoever is admitted later takes part in the next one.

        Raises:
            TooFewAnswersError: fewer than the quorum were heard from until the longest deadline. Nobody was asked
                for anything, so nothing is spent.
        """
        pace, began = self.job.rounds, time.monotonic()
        self._admitted.open_round()
        # Whoever comes to the door itself is there; the others are greeted.
        greetings = Exchange(self.grid, largest=_LARGEST_GREETING)
        since = began - pace.grace_seconds
        while True:
            looked = time.monotonic()
            there = self._heard_from(greetings, since)
            waited, took = time.monotonic() - began, time.monotonic() - looked
            enough = len(there) >= pace.quorum and waited >= min(pace.grace_seconds, pace.deadline_seconds)
            if len(there) >= pace.expected_nodes or enough:
                self._admitted.begin_round()
                return there
            if waited >= pace.longest_seconds:  # it costs nothing to wait for those who have given nothing
                raise TooFewAnswersError(
                    f"{len(there)} nodes are there and the quorum is {pace.quorum}; nobody was asked, and nothing "
                    "was spent",
                    asked=False,
                )
            time.sleep(max(pace.poll_seconds, min(2.0 * took, _LONGEST_PAUSE)))

    def _heard_from(self, greetings: Exchange, since: float) -> dict[int, Node]:
        """Those of the listed nodes that were heard from after ``since``; the others are greeted."""
        nodes = self.present()
        if self.job.nodes is None:
            return nodes
        silent = {
            number
            for number, node in nodes.items()
            if not is_direct(number) and self._heard.get(node.name, -math.inf) < since
        }
        waiting = greetings.waiting_for(since=time.monotonic() - self.job.rounds.resend_seconds)
        if silent - waiting:
            frames = dict.fromkeys(sorted(silent - waiting), b"")
            greetings.send(
                frames, kind=HELLO, group="hello", seconds=max(1.0, self.job.rounds.deadline_seconds)
            )
        for reply in greetings.replies():
            if reply.heard and reply.node_id in nodes:
                self.hear(nodes[reply.node_id].name)
                silent.discard(reply.node_id)
        return {number: node for number, node in nodes.items() if number not in silent}

    def _now_listed(self) -> dict[int, Node]:
        if self.job.nodes is None:
            return {node: Node(f"{node:020d}", self.job.largest_cohort) for node in self.grid.get_node_ids()}
        admitted = self._admitted.in_round()
        direct = self._at_the_door()
        keys = {node.node_id: node.public_key.decode(errors="replace") for node in self.grid.get_nodes()}
        known = {number: key for number, key in keys.items() if key not in direct}
        known |= {number: key for key, number in direct.items()}
        return {number: Node(key, admitted[key]) for number, key in known.items() if key in admitted}

    def _at_the_door(self) -> dict[str, int]:
        """Numbers of those who come to the door itself, by public key; the same at any time. While the door is
        away, those of the last look: they will come to it again.
        """
        if self._line is not None:
            with suppress(LineError):
                present = self._line.present()
                self._there.clear()
                self._there.update(present)
                for key in present:
                    self._direct.setdefault(key, FIRST_DIRECT - len(self._direct))
        return {key: self._direct[key] for key in self._there}
