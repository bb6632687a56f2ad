"""A runtime that runs any protocol by its sessions: users are cut into clients, some of which may be lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.per_user.participation import Attendance
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums, ServerSession
from fedboard.common.protocols.shared.properties import with_second_server
from fedboard.common.protocols.shared.sessions import SessionLoop
from fedboard.common.task import ReleasedSums
from fedboard.server.runtime import Gathered, Traffic
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.pool import OnProgress
from fedboard.simulations.engine.runtime import RoundOfRows
from fedboard.simulations.sessions.choice import ProtocolRecipe
from fedboard.simulations.sessions.clients import Clients, Losses, among_simulated
from fedboard.simulations.sessions.costs import SessionCosts, TimedSession
from fedboard.simulations.sessions.session import SessionWork, ToWorkers


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


def told_nobody(phase: str, done: int, total: int) -> None:
    """Nobody wants to know how a round is getting on."""


def about_of(board: Board) -> bytes:
    """What the sessions of a simulated round are bound to."""
    return f"simulation\n{board.version}\n{board.digest}".encode()


@dataclass(slots=True)
class ProtocolEngine:
    """All users of a data set as clients of a protocol's sessions, in this process and its workers.

    The sums are the same for any number of workers. Beyond the ratings it holds the states of all clients, the
    messages of a step, and the replies of a slab of clients (64 MiB); workers compute the rows of a few clients.
    """

    rows: Engine
    """Of all users: which rows they have, and who opens the sums."""
    fleet: SimulatedFleet
    """Who takes part."""
    pool: WorkerPool = field(kw_only=True)
    """Where clients answer."""
    on_progress: OnProgress = field(kw_only=True, default=told_nobody)
    """Told as they do."""
    protocol: AggregationProtocol = field(init=False)
    costs: SessionCosts | None = field(init=False, default=None)
    """Of the last round; None before the first."""

    def __post_init__(self) -> None:
        """Make the protocol.

        Raises:
            InputError: the recipe is not sound.
        """
        self.protocol = self.fleet.recipe.make()

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """A whole session with everybody.

        Raises:
            PrivacyError: the requests state that not everybody takes part.
            TooFewAnswersError: too few clients were left.
        """
        rows, n_clients = self.rows.round_of(board, requests), self.fleet.clients.n_clients
        way = self._way(board, tuple(requests), rows)
        session = TimedSession(lambda: self._opened(board, way.work))
        loop = SessionLoop(session=session)
        try:
            sums = loop.run(way.carry)
        finally:
            self.costs = SessionCosts.of(
                way.steps,
                server_seconds=session.watch.seconds,
                clients=n_clients,
                survivors=n_clients - len(loop.out),
                board_bytes=rows.board_bytes,
            )
        return Gathered(sums=sums, traffic=Traffic.of(way.bytes_up, round(self.costs.bytes_down_per_client)))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; per-item work is spread over the workers."""
        return self.rows.open(sums, requests, booked)

    def _way(self, board: Board, requests: tuple[Request, ...], rows: RoundOfRows) -> ToWorkers:
        fleet = self.fleet
        return ToWorkers(
            work=SessionWork(recipe=fleet.recipe, about=about_of(board), requests=requests, rows=rows),
            clients=fleet.clients,
            losses=fleet.losses(board.version),
            noise=fleet.noise,
            version=board.version,
            pool=self.pool,
            on_progress=self.on_progress,
        )

    def _opened(self, board: Board, work: SessionWork) -> ServerSession:
        names = self.fleet.clients.names
        listed = among_simulated(self.protocol, len(names))
        protocol = with_second_server(listed, self.fleet.noise)
        return protocol.open(work.about, work.requests, names, n_items=board.catalogue.n_items)
