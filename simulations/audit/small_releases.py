"""Small releases as the run makes them, over many seeds: too few numbers leave in one run to tell anything from."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import event_mu
from fedboard.common.protocols.sums.row_bounds import kept_rows
from fedboard.simulations.audit.canaries import booked_deviations, canary_rows, shifts, unit_noise
from fedboard.simulations.audit.course import within
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.sessions import under_noise
from fedboard.simulations.audit.statistics import FAMILY_ERROR, Line, line_of
from fedboard.simulations.audit.subject import Plan, Subject
from fedboard.simulations.engine import WorkerPool

_ALL = 1 << 30
_CARRIED = 100
"""Numbers of small releases at most where each run takes sessions of another protocol."""
_RUNS = 40
"""At least, for what canaries show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallReleases:
    """What small releases showed over many runs."""

    noise: Mapping[str, FloatArray]
    """By release name: what is left without exact sums, in units of the booked deviation, one row a run: float64,
    shape (n_runs, n_numbers)."""
    lines: tuple[Line, ...]
    """What one canary a run showed of itself."""
    n_runs: int


def small_releases(
    subject: Subject, cohort: Cohort, names: Collection[str], plan: Plan, *, pool: WorkerPool
) -> SmallReleases:
    """Play the run again and again, with other noise each time, up to the last round that holds a small release.

    The runs are over a few items and a few honest users (none where sessions carry their rows, since some protocols
    have noise for each), so that they are quick: the size of small releases does not follow the catalogue. In each
    run a coin decides whether a canary at every bound takes part.

    Args:
        subject: the parts.
        cohort: honest users; some of them take part. Private.
        names: of the releases to look at.
        plan: how many numbers of each; its seed is of the first run's noise, and of canaries and coins.
        pool: where jobs run.
    """
    fewer = subject.with_fewer_items()
    users = within(cohort, fewer.catalogue.n_items)
    enough = plan.small_numbers
    if fewer.sessions is not None:
        users, enough = users.rows(0, 0), min(enough, _CARRIED)
    found = _Many(fewer, names, np.random.default_rng([plan.seed, 0x5EED5]), enough)
    while wanted := found.wanted():
        found.coin()
        for played in play(fewer, users, pool=pool, seed=plan.seed + found.n_runs, planted=found.plant):
            found.observe(played)
            if played.before.version + 1 >= wanted:
                break
    return found.result(FAMILY_ERROR / max(len(names), 1))


@dataclass(slots=True)
class _Shown:
    """What many runs have shown of one release."""

    version: int
    """After which board it comes."""
    noise: list[FloatArray] = field(default_factory=list)
    """What is left without exact sums, in units of the booked deviation."""
    along: list[float] = field(default_factory=list)
    """Inner product of the release with what the coin changes; empty where nothing is claimed of it."""
    squares: list[float] = field(default_factory=list)
    """Squared norm of what the coin changes."""
    mu: float = 0.0


@dataclass(slots=True)
class _Many:
    """What many runs have shown so far."""

    subject: Subject
    names: Collection[str]
    rng: np.random.Generator
    enough: int
    present: list[bool] = field(default_factory=list)
    rows: Contribution | None = None
    shown: dict[str, _Shown] = field(default_factory=dict)

    @property
    def n_runs(self) -> int:
        """Begun so far."""
        return len(self.present)

    def wanted(self) -> int:
        """How many rounds of another run are wanted; 0 where everything has been looked at enough.

        In the first run nobody knows yet where which release is.
        """
        if not self.names:
            return 0
        if not self.n_runs:
            return _ALL
        lacking = (shown.version + 1 for shown in self.shown.values() if not self._enough(shown.noise))
        return max(lacking, default=0)

    def _enough(self, parts: list[FloatArray]) -> bool:
        return len(parts) >= min(_RUNS, self.enough) and sum(part.size for part in parts) >= self.enough

    def coin(self) -> None:
        """Another run."""
        self.present.append(bool(self.rng.random() < 0.5))

    def plant(self, board: Board, requests: Sequence[Request]) -> Contribution:
        """One canary, who is in or not; under ``replace`` the coin says which of their two rows is."""
        swaps = self.subject.budget.adjacency == Adjacency.REPLACE
        n_items = self.subject.catalogue.n_items
        self.rows = canary_rows(requests, 1 + swaps, n_items=n_items, rng=self.rng)
        return kept_rows(self.rows, self._there(self.rows.n_users))

    def _there(self, n_rows: int) -> BoolArray:
        inside = self.present[-1]
        return np.array([inside, not inside][:n_rows])

    def observe(self, played: PlayedRound) -> None:
        """Take the exact sums off, and see what is left; likewise of what a party holds under another's noise."""
        for request in played.requests:
            name = request.name
            left = played.published.get(name)
            if left is None:
                continue
            event, honest = played.events[name], played.honest[name]
            if name in played.held.noised and under_noise(name) in self.names:
                theirs = (
                    played.held.noised[name] - played.held.known[name] - self._given(request, honest.shape)
                )
                shown = self.shown.setdefault(under_noise(name), _Shown(played.before.version))
                shown.noise.append((theirs / booked_deviations(event)).ravel())
            if name in self.names:
                shown = self.shown.setdefault(name, _Shown(played.before.version, mu=event_mu(event)))
                theirs = self._given(request, honest.shape)
                shown.noise.append(unit_noise(event, left.values, honest + theirs).ravel())
                here, *other = self._moved(request, honest.shape)
                away = other[0] if other else np.zeros_like(here)
                moved = (here - away) / booked_deviations(event)
                residual = unit_noise(event, left.values, honest + away.astype(np.int64))
                shown.along.append(float(np.sum(residual * moved)))
                shown.squares.append(float(np.sum(moved**2)))

    def _moved(self, request: Request, shape: tuple[int, ...]) -> FloatArray:
        """What each of the canary's rows adds to a release, grid units, shape (n_rows, rows, width)."""
        assert self.rows is not None  # planted before the round
        moved: FloatArray = shifts(request, self.rows, np.ones(shape[1])).toarray().reshape(-1, *shape)
        return moved

    def _given(self, request: Request, shape: tuple[int, ...]) -> IntArray:
        """The part of the rows that takes part, grid units."""
        moved = self._moved(request, shape)
        given: IntArray = moved[self._there(len(moved))].sum(axis=0).astype(np.int64)
        return given

    def result(self, error: float) -> SmallReleases:
        """Bounds on what was seen; ``error``: probability that a line of a correct run is flagged."""
        lines = []
        for name, shown in self.shown.items():
            if shown.along:  # runs that ended before this release's round are the later ones
                seen = (np.array(shown.along), np.array(shown.squares))
                present = np.array(self.present[: len(shown.along)])
                lines.append(line_of(name, shown.mu, [seen], present, error=error, rng=self.rng))
        noise = {name: np.stack(shown.noise) for name, shown in self.shown.items()}
        return SmallReleases(noise=noise, lines=tuple(lines), n_runs=self.n_runs)
