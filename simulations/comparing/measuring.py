"""What one protocol costs: real sessions of stated sizes, bytes and CPU seconds of both sides.

CPU time, so that other work on the machine counts little. Everything that a protocol does is timed, its
cryptography and the reading of the sums included; carrying the messages is not. Nothing is said of sizes that were
not run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.shared.sessions import SessionLoop
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.simulations.comparing.workload import Workload, spread
from fedboard.simulations.sessions.choice import chosen_card
from fedboard.simulations.sessions.costs import ClientCosts, TimedSession, client_costs
from fedboard.simulations.sessions.session import InProcess

USUAL_SIZES = (10, 40, 160)
"""Clients of the sessions that are run, as far as their messages fit."""
_AT_ONCE = 0.05
"""CPU seconds of a session so short that the quickest of three is taken."""
_NUMBERS_AT_ONCE = 1 << 28
"""Numbers of all messages of one session; the rest of memory is left alone."""
_ABOUT = (b"comparison of protocols, session %d" % number for number in count())


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One session that was run to its end."""

    protocol: AggregationProtocol
    """As sized for this session."""
    clients: int
    dropped: int
    """Clients that vanished when their contributions were asked for."""
    neighbours: int
    """Peers that a client shared masks and secrets with."""
    client: ClientCosts
    """Of one client that stayed; the board is not in it."""
    server_seconds: float
    """CPU seconds of all servers together."""


def sizes_within(sizes: Sequence[int] | None, numbers: int) -> tuple[int, ...]:
    """Which sizes of session to run.

    Args:
        sizes: that were asked for; None: the usual ones whose messages fit into memory.
        numbers: in the sums of the round.

    Raises:
        InputError: one that was asked for does not fit.
    """
    most = max(1, _NUMBERS_AT_ONCE // numbers)
    if sizes is None:
        return tuple(size for size in USUAL_SIZES if size <= most) or (most,)
    if max(sizes) > most:
        raise InputError(
            f"a session of {max(sizes):,} clients with {numbers:,} numbers each does not fit into memory; "
            f"at most {most:,} clients can be measured at this catalogue and rank"
        )
    return tuple(sorted(sizes))


def measure(
    name: str,
    workload: Workload,
    *,
    clients: int,
    users_per_client: int,
    dropout: float,
    settings: Mapping[str, Any],
) -> Measured:
    """Run a session of one protocol; one that is over at once is the quickest of three.

    Args:
        name: of the protocol.
        workload: what is carried.
        clients: of the session.
        users_per_client: whom each hosts.
        dropout: share of the clients that vanish when their contributions are asked for.
        settings: of the protocol, by parameter name.

    Raises:
        InputError: the protocol cannot carry this round, or not for so many clients.
    """
    users = clients * users_per_client
    chosen = bearing(name, clients=clients, users=users, dropout=dropout, settings=settings)
    card = chosen_card(name)
    protocol = card.protocol.sized(clients=clients, users=users, settings=chosen)
    dropped = int(dropout * clients)
    runs = [_session(protocol, workload, clients=clients, dropped=dropped)]
    if runs[0][0] < _AT_ONCE:
        runs += [_session(protocol, workload, clients=clients, dropped=dropped) for _ in range(2)]
    seconds, client = min(runs, key=lambda run: run[0])
    return Measured(
        protocol=protocol,
        clients=clients,
        dropped=dropped,
        neighbours=card.neighbours(protocol.parameters, clients),
        client=client,
        server_seconds=seconds,
    )


def bearing(
    name: str, *, clients: int, users: int, dropout: float, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings of a protocol that bears so many dropouts, where it has a say in that.

    Raises:
        InputError: no such protocol, or it cannot serve so many.
    """
    protocol = chosen_card(name).protocol.sized(clients=clients, users=users, settings=settings)
    return {**({"dropout": dropout} if "dropout" in protocol.parameters else {}), **settings}


def _session(
    protocol: AggregationProtocol, workload: Workload, *, clients: int, dropped: int
) -> tuple[float, ClientCosts]:
    """Run a session to its end; the last ``dropped`` clients vanish when their contributions are asked for.

    Returns:
        CPU seconds of all servers, and what a client cost that stayed.
    """
    about, noise = next(_ABOUT), SecureNoise()
    names = [f"client-{number}" for number in range(clients)]
    gone = set(names[clients - dropped :])
    n_items = workload.board.catalogue.n_items
    session = TimedSession(lambda: protocol.open(about, workload.requests, names, n_items=n_items))
    sides = {name: protocol.join(about, noise) for name in names}
    way = InProcess(clients=sides, given=spread(workload.given(), names))
    way.lost = lambda step, client: session.asks_contributions and client in gone
    sums = SessionLoop(session=session).run(way.carry)
    with session.watch.running():
        whole_sums(sums, workload.requests)  # as a release would read them
    return session.watch.seconds, client_costs(way.steps)
