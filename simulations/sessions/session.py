"""What workers run for a session: clients that answer a step, each from the state that it left behind.

Carrying a session's messages to clients that are computed by workers, a slab of them at a time.

A whole session in one process: every step's messages carried from the server to its clients and back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request, numbers_of
from fedboard.common.messages.refusals import RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import ClientSession, ExactSums, Given, ServerSession
from fedboard.common.protocols.sessions import OpenStep, SessionLoop
from fedboard.common.protocols.sums.row_bounds import row_range
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.engine.runtime import RoundOfRows
from fedboard.simulations.sessions.choice import ProtocolRecipe
from fedboard.simulations.sessions.clients import Clients, Losses, as_simulated, noise_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWork:
    """What all clients of a session share; public but for the rows."""

    recipe: ProtocolRecipe
    about: bytes
    requests: tuple[Request, ...]
    rows: RoundOfRows
    """Everybody's."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Turn:
    """One client's turn in a step."""

    client: int
    users: tuple[int, int]
    """First user that it hosts, and one past the last."""
    noise: NoiseSource
    message: bytes
    state: bytes | None
    """Of its session; None where it has not spoken yet. May hold secrets."""
    asks: bool
    """Whether the step asks for its contribution."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answered:
    """What came of a turn."""

    client: int
    reply: bytes | None
    """None where the client refused."""
    state: bytes


def answered(work: SessionWork, turns: Sequence[Turn]) -> list[Answered]:
    """Take these turns."""
    made, rows = work.recipe.make(), _Rows(work, turns)
    found = []
    for turn in turns:
        protocol, given = as_simulated(made, turn.client), None
        if turn.asks:
            given = Given(contribution=rows.of(turn.users), requests=work.requests)
        if turn.state is None:
            session = protocol.join(work.about, turn.noise)
        else:
            session = protocol.resume(work.about, turn.noise, turn.state)
        try:
            reply: bytes | None = session.answer(turn.message, given)
        except RefusedError:
            reply = None
        found.append(Answered(client=turn.client, reply=reply, state=session.to_bytes()))
    return found


@dataclass(slots=True)
class _Rows:
    """What the users of some turns give, those of a few clients or of one at a time."""

    work: SessionWork
    turns: Sequence[Turn]
    first: int = 0
    stop: int = 0
    there: Contribution | None = None

    def of(self, users: tuple[int, int]) -> Contribution:
        """Rows of these users, who come after those of earlier calls."""
        if self.there is None or users[1] > self.stop:
            self.there, self.first = None, users[0]
            self.stop = max(users[1], min(users[0] + _USERS_AT_ONCE, self.turns[-1].users[1]))
            self.there = self.work.rows.contribution(self.first, self.stop)
        return row_range(self.there, users[0] - self.first, users[1] - self.first)


_USERS_AT_ONCE = 2048
"""Whose rows are computed together, where clients host few."""
_BYTES_PER_SLAB = 1 << 26
_FEWEST_PER_JOB, _MOST_PER_JOB = 4, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """One step of a session."""

    asks_contributions: bool
    asked: int
    """Clients."""
    replied: int
    bytes_up: int
    """Of all replies."""
    bytes_down: int
    """Of the messages to those that reply; without the board."""


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
        before, down = int(self.bytes_up.sum()), 0
        for slab in self._slabs(reached):
            turns = [self._turn(number, step) for number in slab]
            down += sum(len(turn.message) for turn in turns)
            for answer in self._answers(turns):
                self._take(answer, step)
            self.on_progress(f"step {step.number + 1}", slab[-1] + 1, self.clients.n_clients)
        self.steps.append(
            StepCost(
                asks_contributions=step.asks_contributions,
                asked=len(step.messages),
                replied=len(reached),
                bytes_up=int(self.bytes_up.sum()) - before,
                bytes_down=down,
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


Lost = Callable[[int, str], bool]
"""(number of the step, client) -> whether its reply is lost; a client that is lost once is never heard of again."""


def nobody_lost(step: int, client: str) -> bool:
    """Every reply arrives."""
    return False


def drive(
    server: ServerSession,
    clients: Mapping[str, ClientSession],
    given: Mapping[str, Given],
    lost: Lost = nobody_lost,
) -> ExactSums:
    """Run a session to its end.

    Args:
        server: just opened.
        clients: their sides, by identity.
        given: what each gives. Private.
        lost: whose replies are lost, and when.

    Raises:
        TooFewAnswersError: too few replies are left.
    """

    def carry(step: OpenStep) -> None:
        """One step; who is lost never hears of it."""
        for name in step.messages:
            if name in step.asked and not lost(step.number, name):
                own = given[name] if step.asks_contributions else None
                with suppress(RefusedError):
                    step.take(name, clients[name].answer(step.messages[name], own))

    return SessionLoop(session=server).run(carry)
