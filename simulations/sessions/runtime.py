"""A runtime that runs any protocol by its sessions: users are cut into clients, some of which may be lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import process_time

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.per_user.participation import Attendance, require_unsampled
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums
from fedboard.common.protocols.shared.properties import with_second_server
from fedboard.common.task import ReleasedSums
from fedboard.server.runtime import Gathered, Traffic
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.runtime import HeldRows, OnProgress
from fedboard.simulations.sessions.choice import ProtocolRecipe
from fedboard.simulations.sessions.clients import Clients, Losses
from fedboard.simulations.sessions.costs import SessionCosts
from fedboard.simulations.sessions.jobs import SessionWork
from fedboard.simulations.sessions.session import CarriedSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFleet:
    """Who takes part in the sessions of a simulation. Public."""

    recipe: ProtocolRecipe
    """How to make the protocol, here and in workers."""
    clients: Clients
    """Who hosts whom."""
    noise: NoiseSource
    """The run's; each client's own follows from it."""
    dropout: float = 0.0
    """Share of the clients that is lost in each round, in [0, 1)."""
    seed: int = 0
    """Decides who is lost."""

    def __post_init__(self) -> None:
        """Check the share.

        Raises:
            InputError: out of range.
        """
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(f"dropout must be in [0, 1), got {self.dropout}")

    def losses(self, version: int) -> Losses:
        """Who is lost in the round that asks about this board."""
        return Losses.draw(self.clients.n_clients, self.dropout, seed=self.seed, version=version)


def about_of(board: Board) -> bytes:
    """What the sessions of a simulated round are bound to."""
    return f"simulation\n{board.version}\n{board.digest}".encode()


class ProtocolEngine:
    """All users of a data set as clients of a protocol's sessions, in this process and its workers.

    The sums are the same for any number of workers. Beyond the memory of the ``Engine`` that computes the rows it
    holds the states of all clients, the messages of a step, and the replies of a slab of clients (64 MiB).
    """

    def __init__(
        self, rows: Engine, fleet: SimulatedFleet, *, pool: WorkerPool, on_progress: OnProgress | None = None
    ) -> None:
        """Make the protocol.

        Args:
            rows: where users' rows are computed; of the factored form.
            fleet: who takes part.
            pool: where clients answer.
            on_progress: told as they do.

        Raises:
            InputError: the recipe is not sound.
        """
        self.protocol: AggregationProtocol = fleet.recipe.make()
        self.costs: SessionCosts | None = None
        """Of the last round; None before the first."""
        self._rows, self._fleet, self._pool = rows, fleet, pool
        self._on_progress = on_progress or (lambda phase, done, total: None)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """A whole session with everybody.

        Raises:
            PrivacyError: the requests state that not everybody takes part.
            TooFewAnswersError: too few clients were left.
        """
        require_unsampled(requests)
        held = self._rows.rows(board, requests)
        carried = self._carried(board, tuple(requests), held)
        try:
            sums = carried.finish()
        finally:
            self.costs = SessionCosts.of(
                carried.steps,
                server_seconds=carried.server_seconds,
                clients=self._fleet.clients.n_clients,
                survivors=carried.survivors,
                board_bytes=held.board_bytes,
                row_seconds=held.seconds,
            )
        down = round(self.costs.bytes_down_per_client)
        return Gathered(sums=sums, traffic=Traffic.of(carried.bytes_up, down))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; per-item work is spread over the workers."""
        return self._rows.open(sums, requests, booked)

    def _carried(self, board: Board, requests: tuple[Request, ...], held: HeldRows) -> CarriedSession:
        fleet, about = self._fleet, about_of(board)
        began = process_time()
        protocol = with_second_server(self.protocol, fleet.noise)
        server = protocol.open(about, requests, fleet.clients.names, n_items=board.catalogue.n_items)
        return CarriedSession(
            server=server,
            server_seconds=process_time() - began,
            work=SessionWork(recipe=fleet.recipe, about=about, requests=requests, rows=held.sums),
            clients=fleet.clients,
            losses=fleet.losses(board.version),
            noise=fleet.noise,
            version=board.version,
            pool=self._pool,
            on_progress=self._on_progress,
        )


__all__ = ["ProtocolEngine", "SimulatedFleet", "about_of"]
