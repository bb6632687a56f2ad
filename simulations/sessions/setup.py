"""From a configuration to the protocol of a simulation, and what the certificate says of it."""

from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocols.registry import names_where, says
from fedboard.common.protocols.shared.properties import fits_any_fleet, shows_rows
from fedboard.server.runtime import Runtime
from fedboard.simulations.config import RunConfig, SimulationConfig
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.pool import OnProgress
from fedboard.simulations.sessions.choice import ProtocolRecipe, chosen_class
from fedboard.simulations.sessions.clients import Clients, with_simulated_authority
from fedboard.simulations.sessions.runtime import ProtocolEngine, SimulatedFleet
from fedboard.simulations.sessions.without_messages import CancelledEngine


def recipe_of(run: RunConfig, *, backend: str, n_users: int) -> ProtocolRecipe:
    """The protocol that a configuration names, sized for its clients.

    Args:
        run: public.
        backend: which kernels compute.
        n_users: whose contributions the sums must have room for.

    Raises:
        InputError: no such protocol, an unknown setting, or more clients than users.
    """
    clients = Clients.of(n_users, run.clients).n_clients
    settings = with_simulated_authority(run.protocol_settings)
    if says(run.protocol, shows_rows):
        if run.clients is not None:
            raise InputError(
                f"clients are for protocols other than '{names_where(shows_rows)}'; leave them out"
            )
        settings = {"form": run.wire, **settings}
    protocol = chosen_class(run.protocol).sized(
        clients=clients, users=n_users, settings=settings, backend=backend
    )
    borne = protocol.parameters.get("dropout")
    if borne is not None and run.dropout > borne:
        raise InputError(
            f"dropout is {run.dropout:g}, and {run.protocol} is set to bear {borne:g}; give a smaller one, or "
            f"--set run.protocol_settings.dropout={run.dropout:g}"
        )
    return ProtocolRecipe.of(run.protocol, protocol, backend=backend)


def protocol_runtime(
    rows: Engine,
    recipe: ProtocolRecipe,
    config: SimulationConfig,
    *,
    noise: NoiseSource,
    n_users: int,
    pool: WorkerPool,
    on_progress: OnProgress,
) -> Runtime:
    """Real sessions, or their sums alone.

    Args:
        rows: where users' rows are computed.
        recipe: of the protocol.
        config: of the simulation.
        noise: of the run.
        n_users: in the data.
        pool: where clients answer.
        on_progress: told as they do.

    Raises:
        InputError: masks cannot be left out of this protocol.
    """
    fleet = SimulatedFleet(
        recipe=recipe,
        clients=Clients.of(n_users, config.run.clients),
        noise=noise,
        dropout=config.run.dropout,
        seed=config.seed,
    )
    if config.run.masks == "cancelled":
        return CancelledEngine(rows, fleet, pool=pool, on_progress=on_progress)
    return ProtocolEngine(rows, fleet, pool=pool, on_progress=on_progress)


def assumptions_of_protocol(run: RunConfig) -> list[str]:
    """What a certificate adds where a protocol was simulated in a way that no deployment could be."""
    found = []
    if not says(run.protocol, fits_any_fleet):
        found.append(
            "How many users and clients there are is public: the room for their sums, how far these are truncated, "
            "and each client's part of the noise follow from it."
        )
    if run.dropout:
        found.append(
            f"A share of {run.dropout:g} of the clients was lost in each round on purpose, as drawn from the seed."
        )
    if run.protocol_settings.get("vouched_by"):
        found.append(
            "Devices, and who vouches for them, were simulated: their keys are in the program for all to read."
        )
    if run.masks == "cancelled":
        found.append(
            f"Protocol {run.protocol!r} was simulated without its messages: what cancels in its sums was left out, "
            "and one process added up what all clients give."
        )
    return found
