"""A session whose clients are computed by workers, a slab of them at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import process_time

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import ExactSums, ServerSession
from fedboard.common.wire.refusals import RefusedError
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.sessions.clients import Clients, Losses, noise_of
from fedboard.simulations.sessions.costs import StepCost
from fedboard.simulations.sessions.jobs import Answered, SessionWork, Turn, answered

_BYTES_PER_SLAB = 1 << 26
_FEWEST_PER_JOB, _MOST_PER_JOB = 4, 512


@dataclass(slots=True, kw_only=True)
class CarriedSession:
    """A session on its way."""

    server: ServerSession
    work: SessionWork
    clients: Clients
    losses: Losses
    noise: NoiseSource
    """The run's; each client's own follows from it."""
    version: int
    """Of the board that is asked about."""
    pool: WorkerPool
    on_progress: Callable[[str, int, int], None]
    server_seconds: float
    """CPU time of the server's side, its opening included."""
    steps: list[StepCost] = field(default_factory=list)
    bytes_up: IntArray = field(init=False)
    """Of each client in all steps; int64, shape (n_clients,)."""
    _states: dict[int, bytes] = field(default_factory=dict)
    _gone: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.bytes_up = np.zeros(self.clients.n_clients, dtype=np.int64)

    @property
    def survivors(self) -> int:
        """Clients that have replied whenever they were asked."""
        return self.clients.n_clients - len(self._gone)

    def finish(self) -> ExactSums:
        """Carry every step's messages.

        Raises:
            TooFewAnswersError: too few replies are left.
        """
        more = True
        while more:
            self._step()
            with self._on_server():
                more = self.server.proceed()
        with self._on_server():
            return self.server.sums()

    def _step(self) -> None:
        with self._on_server():
            asks, messages = self.server.asks_contributions, self.server.outgoing()
        asked = self._reached(messages, asks=asks)
        sizes, down, seconds = 0, 0, 0.0
        for slab in self._slabs(asked):
            turns = self._turns(slab, messages, asks=asks)
            down += sum(len(turn.message) for turn in turns)
            for answer in self._answers(turns):
                sizes, seconds = sizes + self._take(answer), seconds + answer.seconds
            self.on_progress(f"step {len(self.steps) + 1}", slab[-1] + 1, self.clients.n_clients)
        step = StepCost(
            asks_contributions=asks,
            asked=len(messages),
            replied=len(asked),
            bytes_up=sizes,
            bytes_down=down,
            client_seconds=seconds,
        )
        self.steps.append(step)

    def _reached(self, messages: Mapping[str, bytes], *, asks: bool) -> list[int]:
        """Numbers of the clients that are asked and not lost."""
        given = any(step.asks_contributions for step in self.steps)
        lost = self.losses.gone(first=not self.steps, asks=asks, given=given)
        there = set(messages)
        asked = [number for number, name in enumerate(self.clients.names) if name in there]
        self._gone.update(number for number in asked if lost[number])
        return [number for number in asked if number not in self._gone]

    def _slabs(self, asked: Sequence[int]) -> Iterator[Sequence[int]]:
        numbers = sum(r.release.rows * r.release.width for r in self.work.requests)
        size = max(_FEWEST_PER_JOB * self.pool.n_workers, _BYTES_PER_SLAB // (4 * numbers))
        return (asked[first : first + size] for first in range(0, len(asked), size))

    def _turns(self, slab: Sequence[int], messages: Mapping[str, bytes], *, asks: bool) -> list[Turn]:
        with self._on_server():  # which may make a message when it is looked up
            told = [messages[self.clients.name(number)] for number in slab]
        return [
            Turn(
                client=number,
                users=self.clients.users(number),
                noise=noise_of(self.noise, version=self.version, client=number),
                message=message,
                state=self._states.get(number),
                asks=asks,
            )
            for number, message in zip(slab, told, strict=True)
        ]

    def _answers(self, turns: Sequence[Turn]) -> Iterator[Answered]:
        even = -(-len(turns) // (4 * self.pool.n_workers))
        size = min(_MOST_PER_JOB, max(_FEWEST_PER_JOB, even))
        parts = [turns[first : first + size] for first in range(0, len(turns), size)]
        for answers in self.pool.run([partial(answered, self.work, part) for part in parts]):
            yield from answers

    def _take(self, answer: Answered) -> int:
        """Hand a reply to the server; its size."""
        self._states[answer.client] = answer.state
        if answer.reply is None:
            self._gone.add(answer.client)
            return 0
        self.bytes_up[answer.client] += len(answer.reply)
        try:
            with self._on_server():
                self.server.take(self.clients.name(answer.client), answer.reply)
        except RefusedError:
            self._gone.add(answer.client)
        return len(answer.reply)

    @contextmanager
    def _on_server(self) -> Iterator[None]:
        began = process_time()
        try:
            yield
        finally:
            self.server_seconds += process_time() - began


__all__ = ["CarriedSession"]
