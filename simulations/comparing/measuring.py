"""What one protocol costs a fleet: measured on real sessions where they fit here, else extrapolated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.costs import SessionSize
from fedboard.simulations.comparing.costs import CostModel, carried, fit_costs
from fedboard.simulations.comparing.probes import Measured, first_part, whole_session
from fedboard.simulations.comparing.workload import Workload
from fedboard.simulations.sessions.choice import chosen_card
from fedboard.simulations.sessions.costs import ClientCosts, client_costs

_FEWEST, _MOST, _WIDEST = 6, 162, 320
"""Clients of a session: the smallest, the largest with the whole payload, the largest of all."""
_AT_ONCE = 0.05
_SAMPLE = 2
"""Clients whose part with the whole payload is timed among many neighbours."""
_SECONDS = 4.0
"""A session that takes longer is not followed by a larger one."""
_GROWTH = 3
_NUMBERS_AT_ONCE = 1 << 28
"""Numbers of all messages of one session; the rest of memory is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    """Whom the protocol has to serve. Public."""

    clients: int
    users: int
    dropout: float
    """Share of the clients that vanish when their contributions are asked for; in [0, 1)."""

    @property
    def users_per_client(self) -> int:
        """Users that a client hosts, at most."""
        return -(-self.users // self.clients)

    @property
    def dropped(self) -> int:
        """Clients that vanish."""
        return int(self.dropout * self.clients)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolCosts:
    """One round of a fleet under one protocol."""

    protocol: AggregationProtocol
    """As sized for the fleet."""
    client: ClientCosts
    """Of one client that stays; the board is not in it."""
    client_extrapolated: bool
    """Whether that is a model's, because the client has more neighbours than were run."""
    server_seconds: float
    """CPU seconds of all servers together."""
    server_extrapolated: bool
    """Whether that is the model's, because the fleet has more clients than were run."""
    board_bytes: int
    neighbours: int
    model: CostModel
    """Of the servers."""
    sessions: tuple[Mapping[str, float], ...]
    """Those that were run, and what the model says of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    size: SessionSize
    session: Measured

    @property
    def client(self) -> ClientCosts:
        return client_costs(self.session.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """One protocol, to be run in small."""

    name: str
    workload: Workload
    fleet: FleetSize
    settings: Mapping[str, Any]

    @property
    def card(self) -> Card:
        return chosen_card(self.name)

    def protocol(self, clients: int) -> AggregationProtocol:
        """For so many clients, with room for the fleet's users."""
        return self.card.protocol.sized(clients=clients, users=self.fleet.users, settings=self.settings)

    def crowded(self) -> tuple[int, "_Probe"]:
        """Few clients with as many neighbours as the fleet's have: how many, and their probe."""
        parameters = self.protocol(self.fleet.clients).parameters
        crowd = self.card.crowd(parameters, self.fleet.clients, min(_WIDEST, self.fleet.clients))
        return crowd.clients, replace(self, settings={**self.settings, **crowd.settings})

    def size(
        self, protocol: AggregationProtocol, workload: Workload, clients: int, dropped: int
    ) -> SessionSize:
        """What the cost model needs to know of a session."""
        parameters = protocol.parameters
        return SessionSize(
            clients=clients,
            dropped=dropped,
            neighbours=self.card.neighbours(parameters, clients),
            numbers=workload.numbers,
            ratings=workload.ratings,
            width=workload.width,
            slots=int(parameters.get("most_items", 0)),
        )

    def run(self, clients: int, *, dropout: float, small: bool = False) -> _Run:
        """A whole session; one that is over at once is the quickest of three."""
        workload = self.workload.small() if small else self.workload
        protocol, dropped = self.protocol(clients), int(dropout * clients)
        sessions = [whole_session(protocol, workload, clients=clients, dropped=dropped)]
        if sessions[0].server_seconds < _AT_ONCE:
            sessions += [
                whole_session(protocol, workload, clients=clients, dropped=dropped) for _ in range(2)
            ]
        return _Run(
            size=self.size(protocol, workload, clients, dropped),
            session=min(sessions, key=lambda session: session.server_seconds),
        )


def measure_costs(
    name: str, workload: Workload, fleet: FleetSize, settings: Mapping[str, Any]
) -> ProtocolCosts:
    """Run sessions of one protocol and fit its cost model.

    * *narrow*: the whole payload, few clients, more and more of them; with and without clients that drop out.
    * *wide*, where a protocol has more than one step: as many neighbours as the fleet's clients have; once whole
      with a handful of numbers, once with the whole payload until a few clients have contributed.

    Args:
        name: of the protocol.
        workload: what is carried.
        fleet: what it is extrapolated to.
        settings: of the protocol, by parameter name.

    Raises:
        InputError: the protocol cannot carry this round, or not for this fleet.
    """
    settings = fleet_settings(name, fleet, settings)
    probe = _Probe(name=name, workload=workload, fleet=fleet, settings=settings)
    protocol = probe.protocol(fleet.clients)
    target = probe.size(protocol, workload, fleet.clients, fleet.dropped)
    narrow = _narrow(probe)
    runs, client = list(narrow), narrow[-1].client
    most = narrow[-1].size.neighbours
    if client.steps > 1 and most < target.neighbours:
        clients, crowded = probe.crowded()
        runs.append(crowded.run(clients, dropout=fleet.dropout, small=True))
        client, most = _among_many(crowded, runs[-1]), runs[-1].size.neighbours
        reached = replace(narrow[-1].size, neighbours=most)
        if most < target.neighbours:
            known = [(run.size, run.client) for run in narrow] + [(reached, client)]
            client = _extrapolated(probe.card, known, target)
    model = fit_costs(
        probe.card.server_terms, [run.size for run in runs], [run.session.server_seconds for run in runs]
    )
    same = [run.session.server_seconds for run in narrow if run.size == target]
    return ProtocolCosts(
        protocol=protocol,
        client=client,
        client_extrapolated=most < target.neighbours,
        server_seconds=same[-1] if same else model.cost(target),
        server_extrapolated=not same,
        board_bytes=workload.board_bytes,
        neighbours=target.neighbours,
        model=model,
        sessions=tuple(_told(run, model) for run in runs),
    )


def fleet_settings(name: str, fleet: FleetSize, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a protocol that bears the fleet's dropouts, where it has a say in that.

    Raises:
        InputError: no such protocol, or it cannot serve the fleet.
    """
    protocol = chosen_card(name).protocol.sized(clients=fleet.clients, users=fleet.users, settings=settings)
    bearing = {"dropout": fleet.dropout} if "dropout" in protocol.parameters else {}
    return {**bearing, **settings}


def _narrow(probe: _Probe) -> list[_Run]:
    """Sessions with the whole payload, each three times as large as the one before, as long as they are quick."""
    fleet, runs = probe.fleet, list[_Run]()
    clients = min(_FEWEST, fleet.clients)
    probe.run(clients, dropout=0.0)  # imports, caches
    while True:
        began = process_time()
        runs += [probe.run(clients, dropout=share) for share in sorted({0.0, fleet.dropout})]
        following = min(_GROWTH * clients, _MOST, fleet.clients)
        heavy = following * probe.workload.numbers > _NUMBERS_AT_ONCE
        if following == clients or heavy or process_time() - began > _SECONDS:
            return runs
        clients = following


def _among_many(crowded: _Probe, wide: _Run) -> ClientCosts:
    """A client's costs among as many neighbours as in the wide session, with the whole payload."""
    clients, workload = wide.session.clients, crowded.workload
    sample = 1 if workload.numbers * wide.size.neighbours > _NUMBERS_AT_ONCE else _SAMPLE
    part = first_part(crowded.protocol(clients), workload, clients=clients, sample=sample)
    return part + client_costs(wide.session.steps[wide.session.contribution_step + 1 :])


def _extrapolated(
    card: Card, known: Sequence[tuple[SessionSize, ClientCosts]], target: SessionSize
) -> ClientCosts:
    sizes, clients = [size for size, _ in known], [client for _, client in known]
    return ClientCosts(
        seconds=fit_costs(card.client_terms, sizes, [client.seconds for client in clients]).cost(target),
        up=fit_costs(carried, sizes, [client.up for client in clients]).cost(target),
        down=fit_costs(carried, sizes, [client.down for client in clients]).cost(target),
        steps=known[-1][1].steps,
    )


def _told(run: _Run, model: CostModel) -> Mapping[str, float]:
    return {
        "clients": run.size.clients,
        "dropped": run.size.dropped,
        "neighbours": run.size.neighbours,
        "numbers": run.size.numbers,
        "server_seconds": run.session.server_seconds,
        "model_seconds": model.cost(run.size),
    }
