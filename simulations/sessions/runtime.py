"""Simulations of any protocol: its sessions with all clients, of whom some may be lost.

From a configuration to the protocol of a simulation, and what the certificate says of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums
from fedboard.common.protocols.properties import (
    fits_any_fleet,
    shows_rows,
    with_second_server,
)
from fedboard.common.protocols.registry import names_where, says
from fedboard.common.protocols.sessions import SessionLoop
from fedboard.common.task import ReleasedSums
from fedboard.server.runtime import Gathered, Traffic
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.pool import OnProgress
from fedboard.simulations.sections import RunConfig
from fedboard.simulations.sessions.choice import ProtocolRecipe, chosen_class
from fedboard.simulations.sessions.clients import (
    Clients,
    Losses,
    among_simulated,
    with_simulated_authority,
)
from fedboard.simulations.sessions.session import SessionWork, StepCost, ToWorkers


def told_nobody(phase: str, done: int, total: int) -> None:
    """Nobody wants to know how a round is getting on."""


def about_of(board: Board) -> bytes:
    """What the sessions of a simulated round are bound to."""
    return f"simulation\n{board.version}\n{board.digest}".encode()


@dataclass(slots=True, kw_only=True)
class ProtocolEngine:
    """All users of a data set as clients of a protocol's sessions, in this process and its workers.

    The sums are the same for any number of workers. Beyond the ratings it holds the states of all clients, the
    messages of a step, and the replies of a slab of clients (64 MiB); workers compute the rows of a few clients.
    """

    rows: Engine
    """Of all users: which rows they have, and who opens the sums."""
    recipe: ProtocolRecipe
    """How to make the protocol, here and in workers."""
    clients: Clients
    """Who hosts whom. Public."""
    noise: NoiseSource
    """The run's; each client's own follows from it."""
    pool: WorkerPool
    """Where clients answer."""
    dropout: float = 0.0
    """Share of the clients that is lost in each round, in [0, 1)."""
    seed: int = 0
    """Decides who is lost."""
    on_progress: OnProgress = told_nobody
    """Told as they answer."""
    protocol: AggregationProtocol = field(init=False)
    steps: Sequence[StepCost] = field(init=False, default=())
    """Of the last round's session."""

    def __post_init__(self) -> None:
        """Make the protocol.

        Raises:
            InputError: the recipe is not sound, or the share is out of range.
        """
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(f"dropout must be in [0, 1), got {self.dropout}")
        self.protocol = self.recipe.make()

    def losses(self, version: int) -> Losses:
        """Who is lost in the round that asks about this board."""
        return Losses.draw(self.clients.n_clients, self.dropout, seed=self.seed, version=version)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """A whole session with everybody.

        Raises:
            PrivacyError: the requests state that not everybody takes part.
            TooFewAnswersError: too few clients were left.
        """
        asked, rows = tuple(requests), self.rows.round_of(board, requests)
        about, names = about_of(board), self.clients.names
        way = ToWorkers(
            work=SessionWork(recipe=self.recipe, about=about, requests=asked, rows=rows),
            clients=self.clients,
            losses=self.losses(board.version),
            noise=self.noise,
            version=board.version,
            pool=self.pool,
            on_progress=self.on_progress,
        )
        protocol = with_second_server(among_simulated(self.protocol, len(names)), self.noise)
        session = protocol.open(about, asked, names, n_items=board.catalogue.n_items)
        try:
            found = SessionLoop(session=session).run(way.carry)
        finally:
            self.steps = way.steps
        boards = rows.board_bytes * sum(step.asks_contributions for step in way.steps)
        messages = sum(step.bytes_down / max(1, step.replied) for step in way.steps)
        return Gathered(sums=found, traffic=Traffic.of(way.bytes_up, round(boards + messages)))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; per-item work is spread over the workers."""
        return self.rows.open(sums, requests, booked)


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
    if says(run.protocol, shows_rows) and run.clients is not None:
        raise InputError(f"clients are for protocols other than '{names_where(shows_rows)}'; leave them out")
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
    return found
