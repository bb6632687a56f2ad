"""Real sessions with a stopwatch: bytes and CPU seconds of each step, on both sides.

CPU time, so that other work on the machine counts little. Everything that a protocol does is timed, its
cryptography and the reading of the sums included; carrying the messages is not.
"""

from dataclasses import dataclass
from itertools import count

from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.shared.session_loop import SessionLoop
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.simulations.comparing.workload import Workload, spread
from fedboard.simulations.sessions.costs import ClientCosts, StepCost, client_costs
from fedboard.simulations.sessions.driving import InProcess
from fedboard.simulations.sessions.stopwatch import TimedSession

_ABOUT = (b"comparison of protocols, session %d" % number for number in count())


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A whole session."""

    clients: int
    dropped: int
    server_seconds: float
    steps: tuple[StepCost, ...]

    @property
    def contribution_step(self) -> int:
        """Number of the step that asks for contributions."""
        return next(place for place, step in enumerate(self.steps) if step.asks_contributions)


def whole_session(
    protocol: AggregationProtocol, workload: Workload, *, clients: int, dropped: int
) -> Measured:
    """Run a session to its end; the last ``dropped`` clients vanish when their contributions are asked for."""
    gone = set(names_of(clients)[clients - dropped :])
    session, way = _begun(protocol, workload, clients)
    way.lost = lambda step, client: session.asks_contributions and client in gone
    sums = SessionLoop(session=session).run(way.carry)
    with session.watch.running():
        whole_sums(sums, workload.requests)  # as a release would read them
    return Measured(
        clients=clients,
        dropped=dropped,
        server_seconds=session.watch.seconds,
        steps=tuple(way.steps),
    )


def first_part(
    protocol: AggregationProtocol, workload: Workload, *, clients: int, sample: int
) -> ClientCosts:
    """Run a session until a sample of its clients has contributed: what a client costs so far.

    The session is given up there. A client's part with a large payload can be measured among many neighbours this
    way, without all of them carrying it.
    """
    sampled = set(names_of(clients)[:sample])
    session, way = _begun(protocol, workload, clients)
    way.lost = lambda step, client: session.asks_contributions and client not in sampled
    for step in SessionLoop(session=session).steps():
        way.carry(step)
        if step.asks_contributions:
            break
    return client_costs(way.steps)


def names_of(clients: int) -> list[str]:
    """Identities of so many clients."""
    return [f"client-{number}" for number in range(clients)]


def _begun(protocol: AggregationProtocol, workload: Workload, clients: int) -> tuple[TimedSession, InProcess]:
    about, noise, names = next(_ABOUT), SecureNoise(), names_of(clients)
    n_items = workload.board.catalogue.n_items
    session = TimedSession(lambda: protocol.open(about, workload.requests, names, n_items=n_items))
    sides = {name: protocol.join(about, noise) for name in names}
    return session, InProcess(clients=sides, given=spread(workload.given(), names))
