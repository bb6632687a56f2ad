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
from fedboard.simulations.audit.statistics import Line, bound_of, sharp_bound
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine, WorkerPool

ENOUGH = 300
"""Numbers with which a release can be judged."""
_ALL = 1 << 30
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
    subject: Subject,
    cohort: Cohort,
    names: Collection[str],
    *,
    seed: int,
    pool: WorkerPool,
    enough: int = ENOUGH,
    confidence: float = 0.95,
    family_error: float = 1e-3,
) -> SmallReleases:
    """Play the run again and again, with other noise each time, up to the last round that holds a small release.

    The runs are over a few items and a few honest users (none where sessions carry their rows, since some protocols
    have noise for each), so that they are quick: the size of small releases does not follow the catalogue. In each
    run a coin decides whether a canary at every bound takes part.

    Args:
        subject: the parts.
        cohort: honest users; some of them take part. Private.
        names: of the releases to look at.
        seed: of the first run's noise, and of canaries and coins.
        pool: where jobs run.
        enough: numbers of each release to look at.
        confidence: of each line's bounds.
        family_error: probability that any line of a correct run is flagged.
    """
    fewer = subject.with_fewer_items()
    found = _Many(fewer, names, np.random.default_rng([seed, 0x5EED5]), enough)
    users = within(cohort, fewer.catalogue.n_items)
    with Engine(fewer.task, users, protocol=fewer.protocol, pool=pool) as engine:
        while wanted := found.wanted():
            found.coin()
            rounds = play(
                fewer, engine, seed=seed + found.n_runs, planted=found.plant, honest=fewer.sessions is None
            )
            for played in rounds:
                found.observe(played)
                if played.before.version + 1 >= wanted:
                    break
    return found.result(confidence, 1.0 - family_error / max(len(names), 1))


@dataclass(slots=True)
class _Many:
    """What many runs have shown so far."""

    subject: Subject
    names: Collection[str]
    rng: np.random.Generator
    enough: int
    n_runs: int = 0
    present: list[bool] = field(default_factory=list)
    rows: Contribution | None = None
    noise: dict[str, list[FloatArray]] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)
    reach: dict[str, list[float]] = field(default_factory=dict)
    mu: dict[str, float] = field(default_factory=dict)
    version: dict[str, int] = field(default_factory=dict)
    """After which board a release comes."""

    def wanted(self) -> int:
        """How many rounds of another run are wanted; 0 where everything has been looked at enough.

        In the first run nobody knows yet where which release is.
        """
        if not self.names:
            return 0
        if not self.n_runs:
            return _ALL
        lacking = [self.version[name] + 1 for name in self.version if not self._enough(name)]
        return max(lacking, default=0)

    def _enough(self, name: str) -> bool:
        parts = self.noise[name]
        return len(parts) >= min(_RUNS, self.enough) and sum(part.size for part in parts) >= self.enough

    def coin(self) -> None:
        """Another run."""
        self.n_runs += 1
        self.present.append(bool(self.rng.random() < 0.5))

    def plant(self, board: Board, requests: Sequence[Request]) -> Contribution:
        """One canary, who is in or not; under ``replace`` the coin says which of her two rows is."""
        swaps = self.subject.budget.adjacency == Adjacency.REPLACE
        n_items = self.subject.catalogue.n_items
        self.rows = canary_rows(requests, 1 + swaps, n_items=n_items, rng=self.rng)
        return kept_rows(self.rows, self._there())

    def _there(self) -> BoolArray:
        swaps = self.subject.budget.adjacency == Adjacency.REPLACE
        inside = self.present[-1]
        return np.array([inside, not inside][: 1 + swaps])

    def observe(self, played: PlayedRound) -> None:
        """Take the exact sums off, and see what is left."""
        for request in played.requests:
            left = played.published.get(request.name)
            if left is None:
                continue
            if request.name in played.held.noised:
                self._hold(played, request)
            if request.name not in self.names:
                continue
            event, shape = played.events[request.name], left.values.shape
            assert self.rows is not None  # planted before the round
            hers = shifts(request, self.rows, np.ones(shape[1])).toarray().reshape(-1, *shape)
            there = self._given(hers)
            deviations = booked_deviations(event)
            moved = (hers[0] - (hers[1] if len(hers) > 1 else 0.0)) / deviations
            away = (hers[1] if len(hers) > 1 else np.zeros(shape)).astype(np.int64)
            residual = unit_noise(event, left.values, played.honest[request.name] + away)
            length = float(np.linalg.norm(moved))
            noise = unit_noise(event, left.values, played.honest[request.name] + there)
            self.noise.setdefault(request.name, []).append(noise.ravel())
            self.scores.setdefault(request.name, []).append(
                float(np.sum(residual * moved)) / max(length, 1e-300)
            )
            self.reach.setdefault(request.name, []).append(length)
            self.mu[request.name] = event_mu(event)
            self.version[request.name] = played.before.version

    def _given(self, hers: FloatArray) -> IntArray:
        """The part of the rows that takes part, grid units."""
        given: IntArray = np.tensordot(self._there().astype(np.float64), hers, axes=1).astype(np.int64)
        return given

    def _hold(self, played: PlayedRound, request: Request) -> None:
        """What the first of two servers has under the second one's noise."""
        name = under_noise(request.name)
        if name not in self.names:
            return
        assert self.rows is not None  # planted before the round
        sums = played.held.noised[request.name] - played.held.known[request.name]
        hers = shifts(request, self.rows, np.ones(sums.shape[1])).toarray().reshape(-1, *sums.shape)
        noise = (sums - self._given(hers)) / booked_deviations(played.events[request.name])
        self.noise.setdefault(name, []).append(noise.ravel())
        self.version[name] = played.before.version

    def result(self, confidence: float, strict: float) -> SmallReleases:
        """Bounds on what was seen."""
        lines = []
        for name, scores in self.scores.items():
            # Runs that ended before this release's round are the later ones.
            seen, present = np.array(scores), np.array(self.present[: len(scores)])
            lines.append(
                Line(
                    name=name,
                    mu=self.mu[name],
                    reach=float(np.mean(self.reach[name])) / self.mu[name],
                    bound=bound_of(seen, present, confidence=confidence, rng=self.rng),
                    strict=sharp_bound(seen, present, confidence=strict),
                )
            )
        noise = {name: np.stack(parts) for name, parts in self.noise.items()}
        return SmallReleases(noise=noise, lines=tuple(lines), n_runs=self.n_runs)
