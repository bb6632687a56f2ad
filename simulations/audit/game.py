"""The canary game: users in the run's file or not by a coin, told apart by everything that left in one run.

The adversary knows all honest users' ratings, so she subtracts their exact sums; she knows each canary's rows but
not whether they are in. With d_jk what canary j adds to release k, in units of the booked noise,

    score_j = sum_k <released_k - honest_k, d_jk> / sqrt(sum_k |d_jk|^2),

which is N(mu in_j, 1) plus the other canaries' part: random supports and directions are nearly orthogonal, so
that part has mean near 0 and a small variance; it can only blur the game, never sharpen it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.privacy.accounting.exact import compose_events, epsilon_of_events
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event, event_mu
from fedboard.common.protocols.sums.row_bounds import kept_rows
from fedboard.simulations.audit.canaries import booked_deviations, canary_rows, shifts, unit_noise
from fedboard.simulations.audit.course import CourseStep, step_of
from fedboard.simulations.audit.entrance import Entrance
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.sessions import FIRST, centred
from fedboard.simulations.audit.statistics import Line, bound_of, sharp_bound, uniform_p
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine, WorkerPool

WHOLE_BOARD = "all releases together"
_FEW_NUMBERS = 4096
"""A sum that is not kept per item and has no more numbers than this is audited over many runs."""
_ITEMS_ASKED, _ITEMS_RATED = 8, 64
"""Ratings of a canary in the file: enough to be asked; enough for her device to reach bounds with."""
BLIND = "masked numbers and single shares"
Seen: TypeAlias = tuple[FloatArray, FloatArray]
"""For each canary: inner product with her shift, and the squared norm of the shift."""


class Devices(StrEnum):
    """What the canaries who are in send."""

    HOSTILE = "at the bound"
    """Rows that lie at every bound: a device of hers may send what it likes that the aggregator accepts."""
    OWN = "from her ratings"
    """What the device makes of what the run made of her ratings in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GameResult:
    """One run with canaries."""

    n_canaries: int
    rejected: int
    """Canary rows that the aggregator dropped; they could not be seen."""
    claimed: float
    """Epsilon of the run's budget, at ``delta``."""
    epsilon: float
    """Of all booked events together, at ``delta``; at most what is claimed."""
    delta: float
    whole: Line
    releases: tuple[Line, ...]
    """Those of enough numbers to tell canaries apart in one run; see ``small_releases`` for the others."""
    parties: tuple[Line, ...]
    """What parties of a protocol hold before anything is published; nothing is claimed for masked numbers."""
    unexplained: Mapping[str, int]
    """Releases whose sums over others are not what they are without the canaries, and by how much at most."""
    course: tuple[CourseStep, ...]
    uniform: tuple[float, ...]
    """p-values of masked numbers and single shares being uniform; empty where there are none."""

    @property
    def epsilon_lower_bound(self) -> float:
        """Sharp lower bound on epsilon of the whole board."""
        return self.whole.bound.epsilon(self.delta)

    @property
    def violated(self) -> bool:
        """Whether the whole board leaks more than it claims, at the game's confidence."""
        return self.whole.bound.sharp > self.whole.mu

    @property
    def violated_releases(self) -> tuple[Line, ...]:
        """Single releases that leak more than they claim, at the family-wise confidence."""
        return tuple(line for line in (*self.releases, *self.parties) if line.strict > line.mu)


def canary_game(
    subject: Subject,
    entrance: Entrance,
    *,
    seed: int,
    n_canaries: int,
    pool: WorkerPool,
    devices: Devices = Devices.HOSTILE,
    confidence: float = 0.95,
    family_error: float = 1e-3,
) -> GameResult:
    """Play the game once, from a file of ratings to the last board.

    Canaries are users in the file. Those who are in it change what a run makes of it, if only in their own rows;
    the adversary knows the file without them.

    Args:
        subject: the parts.
        entrance: makes rows of files; its honest users are those the adversary knows.
        seed: of the noise, where it is seeded, and of the canaries and their coins.
        n_canaries: how many take part or not.
        pool: where jobs run.
        devices: what those send who are in.
        confidence: of every lower bound, each on its own.
        family_error: probability that any single release of a correct run is flagged.
    """
    rng = np.random.default_rng([seed, 0xCA9A27])
    game = _Game.of(subject, entrance, n_canaries, devices, rng)
    with (
        Engine(subject.task, game.inside, protocol=subject.protocol, pool=pool) as engine,
        Engine(
            subject.task, entrance.honest_rows(subject.read).cohort, protocol=subject.protocol, pool=pool
        ) as known,
    ):
        rounds = play(
            subject, engine, seed=seed, planted=game.plant, known=known, in_file=devices is Devices.OWN
        )
        for played in rounds:
            game.observe(played)
    return game.result(confidence, family_error)


class _Game:
    """Canaries, their coins, and what the releases have shown about them so far."""

    def __init__(
        self,
        subject: Subject,
        present: BoolArray,
        inside: Cohort,
        own: Cohort | None,
        rng: np.random.Generator,
    ) -> None:
        self._subject, self._rng, self._own = subject, rng, own
        self.present, self.inside = present, inside
        self._swaps = subject.budget.adjacency == Adjacency.REPLACE
        self._rows: Contribution | None = None
        self._seen: dict[str, Seen] = {}
        """By release name, what published numbers showed."""
        self._held: dict[str, Seen] = {}
        """By release name, what a party of the protocol showed that holds sums under another's noise."""
        self._blind: dict[str, Seen] = {}
        """By release name, what masked numbers and single shares showed."""
        self._alone: set[str] = set()
        self._events: dict[str, Event] = {}
        self._course: list[CourseStep] = []
        self._unexplained: dict[str, int] = {}
        self._uniform: list[float] = []
        self._rejected = 0

    @staticmethod
    def of(
        subject: Subject, entrance: Entrance, n_canaries: int, devices: Devices, rng: np.random.Generator
    ) -> "_Game":
        """Write the files: of the honest users with those canaries whose coin says so, and of all canaries."""
        swaps = subject.budget.adjacency == Adjacency.REPLACE
        present: BoolArray = rng.random(n_canaries) < 0.5
        here = np.concatenate([present, ~present]) if swaps else present
        size = _ITEMS_ASKED if devices is Devices.HOSTILE else _ITEMS_RATED
        crowd = entrance.strangers(here.size, items_each=size, rng=rng, read=subject.read)
        ids = rng.permutation(crowd.ids)
        world = entrance.rows(entrance.honest.joined(crowd.of(ids[here])), subject.read)
        if devices is Devices.HOSTILE:
            return _Game(subject, present, world.without(ids), None, rng)
        alone = entrance.rows(crowd, subject.read)
        return _Game(subject, present, world.cohort, alone.in_order(ids), rng)

    def plant(self, board: Board, requests: Sequence[Request]) -> Contribution:
        """The rows of those who are in: at every bound, or what their devices make of their ratings.

        Under ``replace`` each canary has two rows, and the coin says which one takes part.
        """
        n, n_items = self.present.size, self._subject.catalogue.n_items
        taking_part = np.concatenate([self.present, ~self.present]) if self._swaps else self.present
        if self._own is None:
            rows = canary_rows(requests, taking_part.size, n_items=n_items, rng=self._rng)
        else:
            rows = self._subject.task.contribute(self._own, board, tuple(requests))
        self._rows = rows
        assert rows.n_users == (1 + self._swaps) * n
        return kept_rows(rows, taking_part)

    def observe(self, played: PlayedRound) -> None:
        """Score every release of a round, and what was held before."""
        self._rejected += played.rejected
        self._events = dict(played.events)
        self._unexplained |= played.unexplained
        self._course.append(step_of(played))
        self._uniform += [uniform_p(numbers) for _, numbers in played.held.blind]
        blind = centred(played.held)
        for request in played.requests:
            left = played.published.get(request.name)
            if left is None or (self._own is not None and request.source is SumSource.ITEM_PAIRS):
                continue
            event = played.events[request.name]
            if not request.source.per_item and request.release.width <= _FEW_NUMBERS:
                self._alone.add(request.name)
            moved = self._moved(request, event)
            self._seen[request.name] = _along(
                moved, unit_noise(event, left.values, played.honest[request.name])
            )
            if request.name in played.held.noised:
                under = played.held.noised[request.name] - played.held.known[request.name]
                self._held[request.name] = _along(moved, under / booked_deviations(event))
            if request.name in blind:
                numbers = blind[request.name].astype(np.float64)
                self._blind[request.name] = _along(moved, numbers / max(float(numbers.std()), 1.0))

    def _moved(self, request: Request, event: Event) -> csr_array:
        """What the coin changes: a row against nothing, or against the canary's other row."""
        assert self._rows is not None  # planted before the round
        moved, n = shifts(request, self._rows, booked_deviations(event)), self.present.size
        return csr_array(moved[:n] - moved[n:]) if self._swaps else moved

    def result(self, confidence: float, family_error: float) -> GameResult:
        """Bounds on what was seen."""
        apart = [name for name in self._seen if name not in self._alone]
        strict = 1.0 - family_error / max(len(apart) + len(self._held), 1)
        events, budget = list(self._events.values()), self._subject.budget
        mu = {name: event_mu(self._events[name]) for name in self._seen}
        lines = [self._line(name, mu[name], [self._seen[name]], confidence, strict) for name in apart]
        together, total = list(self._seen.values()), compose_events(events)
        whole = self._line(WHOLE_BOARD, total, together, confidence, 1.0 - family_error)
        parties: dict[str, Line] = {}
        if self._held:
            parties[FIRST] = self._line(FIRST, total, list(self._held.values()), confidence, strict)
        if self._blind:
            parties[BLIND] = self._line(BLIND, 0.0, list(self._blind.values()), confidence, strict)
        return GameResult(
            n_canaries=self.present.size,
            rejected=self._rejected,
            claimed=budget.epsilon,
            epsilon=epsilon_of_events(events, budget.delta),
            delta=budget.delta,
            whole=whole,
            releases=tuple(lines),
            parties=tuple(parties.values()),
            unexplained={name: most for name, most in self._unexplained.items() if most},
            course=tuple(self._course),
            uniform=tuple(self._uniform),
        )

    def _line(
        self,
        name: str,
        mu: float,
        seen: Sequence[Seen],
        confidence: float,
        strict: float,
    ) -> Line:
        along = np.sum([part[0] for part in seen], axis=0)
        reached = np.sqrt(np.sum([part[1] for part in seen], axis=0))
        scores = np.divide(along, reached, out=np.zeros_like(reached), where=reached > 0)
        return Line(
            name=name,
            mu=mu,
            reach=float(np.mean(reached)) / mu if mu else 0.0,
            bound=bound_of(scores, self.present, confidence=confidence, rng=self._rng),
            strict=sharp_bound(scores, self.present, confidence=strict),
        )


def _along(moved: csr_array, residual: FloatArray) -> Seen:
    return np.asarray(moved @ residual.ravel()), _squared_norms(moved)


def _squared_norms(rows: csr_array) -> FloatArray:
    return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64)


__all__ = ["BLIND", "WHOLE_BOARD", "Devices", "GameResult", "Line", "canary_game"]
