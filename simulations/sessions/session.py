"""Carrying a session's messages to clients that are computed by workers, a slab of them at a time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import numbers_of
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocols.shared.sessions import OpenStep
from fedboard.common.wire.refusals import RefusedError
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.sessions.clients import Clients, Losses, noise_of
from fedboard.simulations.sessions.costs import StepCost
from fedboard.simulations.sessions.jobs import Answered, SessionWork, Turn, answered

_BYTES_PER_SLAB = 1 << 26
_FEWEST_PER_JOB, _MOST_PER_JOB = 4, 512


@dataclass(slots=True, kw_only=True)
class ToWorkers:
    """The way of one session's messages, and what they cost."""

    work: SessionWork
    clients: Clients
    losses: Losses
    noise: NoiseSource
    """The run's; each client's own follows from it."""
    version: int
    """Of the board that is asked about."""
    pool: WorkerPool
    on_progress: Callable[[str, int, int], None]
    steps: list[StepCost] = field(default_factory=list)
    bytes_up: IntArray = field(init=False)
    """Of each client in all steps; int64, shape (n_clients,)."""
    _states: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bytes_up = np.zeros(self.clients.n_clients, dtype=np.int64)

    def carry(self, step: OpenStep) -> None:
        """One step: a turn for each client that is asked and not lost."""
        reached = self._reached(step)
        before, down, seconds = int(self.bytes_up.sum()), 0, 0.0
        for slab in self._slabs(reached):
            turns = [self._turn(number, step) for number in slab]
            down += sum(len(turn.message) for turn in turns)
            for answer in self._answers(turns):
                seconds += answer.seconds
                self._take(answer, step)
            self.on_progress(f"step {step.number + 1}", slab[-1] + 1, self.clients.n_clients)
        self.steps.append(
            StepCost(
                asks_contributions=step.asks_contributions,
                asked=len(step.messages),
                replied=len(reached),
                bytes_up=int(self.bytes_up.sum()) - before,
                bytes_down=down,
                client_seconds=seconds,
            )
        )

    def _reached(self, step: OpenStep) -> list[int]:
        """Numbers of the clients that are asked and not lost."""
        given = any(earlier.asks_contributions for earlier in self.steps)
        lost = self.losses.gone(first=step.number == 0, asks=step.asks_contributions, given=given)
        names = self.clients.names
        return [number for number, name in enumerate(names) if name in step.asked and not lost[number]]

    def _slabs(self, reached: Sequence[int]) -> Iterator[Sequence[int]]:
        numbers = numbers_of(self.work.requests)
        size = max(_FEWEST_PER_JOB * self.pool.n_workers, _BYTES_PER_SLAB // (4 * numbers))
        return (reached[first : first + size] for first in range(0, len(reached), size))

    def _turn(self, number: int, step: OpenStep) -> Turn:
        return Turn(
            client=number,
            users=self.clients.users(number),
            noise=noise_of(self.noise, version=self.version, client=number),
            message=step.messages[self.clients.name(number)],
            state=self._states.get(number),
            asks=step.asks_contributions,
        )

    def _answers(self, turns: Sequence[Turn]) -> Iterator[Answered]:
        even = -(-len(turns) // (4 * self.pool.n_workers))
        size = min(_MOST_PER_JOB, max(_FEWEST_PER_JOB, even))
        parts = [turns[first : first + size] for first in range(0, len(turns), size)]
        for answers in self.pool.run([partial(answered, self.work, part) for part in parts]):
            yield from answers

    def _take(self, answer: Answered, step: OpenStep) -> None:
        """Keep the client's state, and hand its reply to the server."""
        self._states[answer.client] = answer.state
        if answer.reply is not None:
            self.bytes_up[answer.client] += len(answer.reply)
            with suppress(RefusedError):
                step.take(self.clients.name(answer.client), answer.reply)
