"""Large simulations of protocols whose messages cancel: the sums of their sessions, without the sessions.

Masks cancel, shares of a point function add up to it, and the noise of n clients is one draw of n times the
variance: what is left is the sum of the truncated contributions and that noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, TooFewAnswersError
from fedboard.common.per_user.participation import Attendance
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.shared.properties import SumsLeft
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.row_bounds import only_rows
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.common.task import ReleasedSums
from fedboard.server.runtime import Gathered
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.engine.pool import OnProgress
from fedboard.simulations.engine.runtime import RoundOfRows
from fedboard.simulations.sessions.choice import ProtocolRecipe, sums_left
from fedboard.simulations.sessions.clients import client_noise
from fedboard.simulations.sessions.runtime import SimulatedFleet, about_of, told_nobody

_ALL_CLIENTS = -1
"""In place of a client's number: the one draw of everybody's noise."""


@dataclass(slots=True)
class CancelledEngine:
    """All users of a data set as clients of a protocol whose messages are never made. Simulation only.

    Guarantee: for protocols without noise of the clients the same sums, to the last bit, as ``ProtocolEngine`` over
    the same clients, of which the same are lost; with it, sums of the same distribution.
    """

    rows: Engine
    """Of all users: which rows they have, and who opens the sums."""
    fleet: SimulatedFleet
    """Who takes part; its noise is seeded."""
    pool: WorkerPool = field(kw_only=True)
    """Where sums are computed."""
    on_progress: OnProgress = field(kw_only=True, default=told_nobody)
    """Told as they are."""
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

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; per-item work is spread over the workers."""
        return self.rows.open(sums, requests, booked)

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
