"""Simulations of any protocol: its sessions with all clients, of whom some may be lost, or their sums alone.

From a configuration to the protocol of a simulation, and what the certificate says of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums
from fedboard.common.protocols.properties import (
    SumsLeft,
    fits_any_fleet,
    shows_rows,
    with_second_server,
)
from fedboard.common.protocols.registry import names_where, says
from fedboard.common.protocols.sessions import SessionLoop
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.row_bounds import only_rows
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.common.task import ReleasedSums
from fedboard.server.runtime import Gathered, Runtime, Traffic
from fedboard.simulations.config import RunConfig, SimulationConfig
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.pool import OnProgress
from fedboard.simulations.engine.runtime import RoundOfRows
from fedboard.simulations.sessions.choice import ProtocolRecipe, chosen_class, sums_left
from fedboard.simulations.sessions.clients import (
    Clients,
    Losses,
    among_simulated,
    client_noise,
    with_simulated_authority,
)
from fedboard.simulations.sessions.costs import StepCost, client_costs
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
class _OfClients:
    """All users of a data set as clients of a protocol."""

    rows: Engine
    """Of all users: which rows they have, and who opens the sums."""
    fleet: SimulatedFleet
    """Who takes part."""
    pool: WorkerPool = field(kw_only=True)
    """Where clients answer, or their sums are computed."""
    on_progress: OnProgress = field(kw_only=True, default=told_nobody)
    """Told as they are."""

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; per-item work is spread over the workers."""
        return self.rows.open(sums, requests, booked)


@dataclass(slots=True)
class ProtocolEngine(_OfClients):
    """All users of a data set as clients of a protocol's sessions, in this process and its workers.

    The sums are the same for any number of workers. Beyond the ratings it holds the states of all clients, the
    messages of a step, and the replies of a slab of clients (64 MiB); workers compute the rows of a few clients.
    """

    protocol: AggregationProtocol = field(init=False)
    steps: Sequence[StepCost] = field(init=False, default=())
    """Of the last round's session."""

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
        fleet, asked, rows = self.fleet, tuple(requests), self.rows.round_of(board, requests)
        about, names = about_of(board), fleet.clients.names
        way = ToWorkers(
            work=SessionWork(recipe=fleet.recipe, about=about, requests=asked, rows=rows),
            clients=fleet.clients,
            losses=fleet.losses(board.version),
            noise=fleet.noise,
            version=board.version,
            pool=self.pool,
            on_progress=self.on_progress,
        )
        protocol = with_second_server(among_simulated(self.protocol, len(names)), fleet.noise)
        session = protocol.open(about, asked, names, n_items=board.catalogue.n_items)
        try:
            found = SessionLoop(session=session).run(way.carry)
        finally:
            self.steps = way.steps
        boards = rows.board_bytes * sum(step.asks_contributions for step in way.steps)
        down = round(boards + client_costs(way.steps).down)
        return Gathered(sums=found, traffic=Traffic.of(way.bytes_up, down))


_ALL_CLIENTS = -1
"""In place of a client's number: the one draw of everybody's noise."""


@dataclass(slots=True)
class CancelledEngine(_OfClients):
    """All users of a data set as clients of a protocol whose messages are never made. Simulation only.

    Guarantee: for protocols without noise of the clients the same sums, to the last bit, as ``ProtocolEngine`` over
    the same clients, of which the same are lost; with it, sums of the same distribution. Masks cancel, shares of a
    point function add up to it, and the noise of n clients is one draw of n times the variance: what is left is the
    sum of the truncated contributions and that noise. It must be seeded.
    """

    _left: SumsLeft = field(init=False)

    def __post_init__(self) -> None:
        """See what is left of the protocol.

        Raises:
            InputError: that is not known, or the noise is not seeded.
        """
        if self.fleet.noise.private:
            raise InputError("masks are left out in simulations only: take seeded noise, or real masks")
        self._left = sums_left(self.fleet.recipe.choice, self.fleet.recipe.make())

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The sums that a session would give.

        Raises:
            PrivacyError: the requests state that not everybody takes part.
            TooFewAnswersError: too few clients are left.
        """
        left, losses = self._left, self.fleet.losses(board.version)
        giving = ~losses.gone(first=left.gives_at_once, asks=True, given=False)
        n_giving = int(np.count_nonzero(giving))
        if n_giving < left.fewest:
            raise TooFewAnswersError(
                f"{n_giving} clients gave and at least {left.fewest} make a sum; nothing was released",
                given=True,
            )
        packing = left.packing(requests)
        totals = self._coarse(board, tuple(requests), packing.shifts, giving)
        for name, noise in self._noise(requests, packing, giving, board.version).items():
            totals[name] += noise
        sums = packing.unflatten(packing.flatten(totals))
        found = DenseSums(
            sums=sums,
            noise_shares=left.noise_shares(n_giving),
            noise_ratio=left.noise_ratio,
            residue_bits=packing.residue_bits if left.shares is None else {},
        )
        return Gathered(sums=found)

    def _coarse(
        self, board: Board, requests: tuple[Request, ...], shifts: Mapping[str, int], giving: BoolArray
    ) -> dict[str, IntArray]:
        work = _Work(
            recipe=self.fleet.recipe,
            about=about_of(board),
            requests=requests,
            shifts=dict(shifts),
            rows=self.rows.round_of(board, requests),
            backend=self.fleet.recipe.backend,
        )
        users, n_blocks = self.fleet.clients.users_of(giving), 4 * self.pool.n_workers
        bounds = np.arange(n_blocks + 1) * users.size // n_blocks
        jobs = [
            partial(_coarse_block, work, users[start:stop], int(start)) for start, stop in pairwise(bounds)
        ]
        parts = self.pool.run(jobs, lambda done: self.on_progress("sums", done, n_blocks))
        return dict(DenseSums.total(parts, requests).sums)

    def _noise(
        self, requests: Sequence[Request], packing: Packing, giving: BoolArray, version: int
    ) -> dict[str, IntArray]:
        left, fleet = self._left, self.fleet
        noise: dict[str, IntArray] = {}
        if left.second_noise is not None:  # from the streams that a second server draws from
            noise.update(left.second_noise(packing, fleet.noise))
        if left.shares is not None:
            hosts = fleet.clients.users_of(giving) if left.shares_per_user else giving
            drawn = client_noise(fleet.seed, version, _ALL_CLIENTS)
            for request in requests:
                noise[request.name] = left.shares.draw(
                    request.release,
                    drawn.stream(request.name),
                    shift=packing.shifts[request.name],
                    shares=int(np.count_nonzero(hosts)),
                )
        return noise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What all blocks of users share; public but for the rows."""

    recipe: ProtocolRecipe
    about: bytes
    requests: tuple[Request, ...]
    shifts: Mapping[str, int]
    rows: RoundOfRows
    backend: str


def _coarse_block(work: _Work, present: BoolArray, start: int) -> dict[str, IntArray]:
    """Sums over a block of users that begins at ``start``."""
    part = work.rows.contribution(start, start + present.size)
    if not present.all():
        part = only_rows(part, present)
    part = sums_left(work.recipe.choice, work.recipe.make()).cut(part, work.about, work.requests)
    return coarse_sums(part, work.requests, work.shifts, backend=work.backend)


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
