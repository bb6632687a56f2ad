"""What workers run for a session: clients that answer a step, each from the state that it left behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

from fedboard.common.contribution import Request
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import Given
from fedboard.common.protocols.sums.row_bounds import row_range
from fedboard.common.wire.refusals import RefusedError
from fedboard.simulations.engine.jobs import SharedSums
from fedboard.simulations.sessions.choice import ProtocolRecipe
from fedboard.simulations.sessions.simulated_devices import as_simulated


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWork:
    """What all clients of a session share; public but for the rows."""

    recipe: ProtocolRecipe
    about: bytes
    requests: tuple[Request, ...]
    rows: SharedSums
    """Everybody's, in shared memory."""


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
    seconds: float
    """CPU time."""


def answered(work: SessionWork, turns: Sequence[Turn]) -> list[Answered]:
    """Take these turns."""
    made = work.recipe.make()
    found = []
    for turn in turns:
        protocol, given = as_simulated(made, turn.client), None
        if turn.asks:
            everybody = work.rows.rows.contribution(work.rows.population)
            given = Given(contribution=row_range(everybody, *turn.users), requests=work.requests)
        began = process_time()
        if turn.state is None:
            session = protocol.join(work.about, turn.noise)
        else:
            session = protocol.resume(work.about, turn.noise, turn.state)
        try:
            reply: bytes | None = session.answer(turn.message, given)
        except RefusedError:
            reply = None
        state, seconds = session.to_bytes(), process_time() - began
        found.append(Answered(client=turn.client, reply=reply, state=state, seconds=seconds))
    return found
