"""The canary game: users in the run's file or not by a coin, told apart by everything that left in one run.

The adversary knows all honest users' ratings, so they subtract the exact sums of these; they know each canary's
rows but not whether they are in. With d_jk what canary j adds to release k, in units of the booked noise,

    score_j = sum_k <released_k - honest_k, d_jk> / sqrt(sum_k |d_jk|^2),

which is N(mu in_j, 1) plus the other canaries' part: random supports and directions are nearly orthogonal, so
that part has mean near 0 and a small variance; it can only blur the game, never sharpen it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from scipy.sparse import csr_array

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.privacy.accounting.exact import compose_events, epsilon_of, epsilon_of_events
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event, event_mu
from fedboard.common.protocols.sums.row_bounds import kept_rows
from fedboard.simulations.audit.canaries import (
    booked_deviations,
    canary_rows,
    enough_canaries,
    shifts,
    unit_noise,
)
from fedboard.simulations.audit.course import CourseStep, step_of
from fedboard.simulations.audit.entrance import Entrance
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.sessions import FIRST, centred
from fedboard.simulations.audit.statistics import FAMILY_ERROR, Line, Seen, line_of, uniform_p
from fedboard.simulations.audit.subject import Plan, Subject
from fedboard.simulations.engine import WorkerPool

WHOLE_BOARD = "all releases together"
_FEW_NUMBERS = 4096
"""A sum that is not kept per item and has no more numbers than this is audited over many runs."""
_ITEMS_ASKED, _ITEMS_RATED = 8, 64
"""Ratings of a canary in the file: enough to be asked; enough for a device to reach bounds with."""
BLIND = "masked numbers and single shares"
_OWN_CANARIES = 1_000
"""At most, whose own devices answer."""


class Devices(StrEnum):
    """What the canaries who are in send."""

    HOSTILE = "at the bound"
    """Rows that lie at every bound: a device may send whatever the aggregator accepts."""
    OWN = "from their ratings"
    """What the device makes of what the run made of the canary's ratings in the file."""


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
        return epsilon_of(self.delta, mu=self.whole.sharp)

    @property
    def violated(self) -> bool:
        """Whether the whole board leaks more than it claims, at the game's confidence."""
        return self.whole.sharp > self.whole.mu

    @property
    def violated_releases(self) -> tuple[Line, ...]:
        """Single releases that leak more than they claim, at the family-wise confidence."""
        return tuple(line for line in (*self.releases, *self.parties) if line.strict > line.mu)


def canary_game(
    subject: Subject,
    entrance: Entrance,
    plan: Plan,
    *,
    seed: int,
    pool: WorkerPool,
    devices: Devices = Devices.HOSTILE,
) -> GameResult:
    """Play the game once, from a file of ratings to the last board.

    Canaries are users in the file. Those who are in it change what a run makes of it, if only in their own rows;
    the adversary knows the file without them.

    Args:
        subject: the parts.
        entrance: makes rows of files; its honest users are those the adversary knows.
        plan: how many canaries take part or not, and how many such games are played.
        seed: of the noise, where it is seeded, and of the canaries and their coins.
        pool: where jobs run.
        devices: what those send who are in.
    """
    budget, hostile = subject.budget, devices is Devices.HOSTILE
    n_canaries = plan.canaries or enough_canaries(
        budget.epsilon, budget.delta, n_items=subject.catalogue.n_items
    )
    if not hostile:
        n_canaries = min(n_canaries, _OWN_CANARIES)
    rng = np.random.default_rng([seed, 0xCA9A27])
    game = _Game.of(subject, entrance, n_canaries, devices, rng)
    rounds = play(
        subject,
        game.inside,
        pool=pool,
        seed=seed,
        planted=game.plant,
        known=entrance.honest_rows().cohort,
        in_file=not hostile,
    )
    for played in rounds:
        game.observe(played)
    return game.result(FAMILY_ERROR / plan.repeat if hostile else FAMILY_ERROR)


@dataclass(slots=True, kw_only=True)
class _Game:
    """Canaries, their coins, and what the releases have shown about them so far."""

    subject: Subject
    present: BoolArray
    inside: Cohort
    """Everybody in the run's file."""
    own: Cohort | None
    """Rows of the canaries, where their own devices answer."""
    rng: np.random.Generator
    rows: Contribution | None = None
    seen: dict[str, Seen] = field(default_factory=dict)
    """By release name, what published numbers showed."""
    held: dict[str, Seen] = field(default_factory=dict)
    """By release name, what a party of the protocol showed that holds sums under another's noise."""
    blind: dict[str, Seen] = field(default_factory=dict)
    """By release name, what masked numbers and single shares showed."""
    alone: set[str] = field(default_factory=set)
    """Names of small releases."""
    events: dict[str, Event] = field(default_factory=dict)
    course: list[CourseStep] = field(default_factory=list)
    unexplained: dict[str, int] = field(default_factory=dict)
    uniform: list[float] = field(default_factory=list)
    rejected: int = 0

    @property
    def swaps(self) -> bool:
        """Whether neighbours replace each other: each canary then has two rows, and the coin says which is in."""
        return self.subject.budget.adjacency == Adjacency.REPLACE

    @staticmethod
    def of(
        subject: Subject, entrance: Entrance, n_canaries: int, devices: Devices, rng: np.random.Generator
    ) -> "_Game":
        """Write the files: of the honest users with those canaries whose coin says so, and of all canaries."""
        swaps = subject.budget.adjacency == Adjacency.REPLACE
        present: BoolArray = rng.random(n_canaries) < 0.5
        here = np.concatenate([present, ~present]) if swaps else present
        size = _ITEMS_ASKED if devices is Devices.HOSTILE else _ITEMS_RATED
        crowd = entrance.strangers(here.size, items_each=size, rng=rng)
        ids = rng.permutation(crowd.ids)
        world = entrance.rows(entrance.honest.joined(crowd.of(ids[here])))
        hostile = devices is Devices.HOSTILE
        return _Game(
            subject=subject,
            present=present,
            inside=world.without(ids) if hostile else world.cohort,
            own=None if hostile else entrance.rows(crowd).in_order(ids),
            rng=rng,
        )

    def plant(self, board: Board, requests: Sequence[Request]) -> Contribution:
        """The rows of those who are in: at every bound, or what their devices make of their ratings."""
        n_items = self.subject.catalogue.n_items
        taking_part = np.concatenate([self.present, ~self.present]) if self.swaps else self.present
        if self.own is None:
            rows = canary_rows(requests, taking_part.size, n_items=n_items, rng=self.rng)
        else:
            rows = self.subject.task.contribute(self.own, board, tuple(requests))
        self.rows = rows
        assert rows.n_users == taking_part.size
        return kept_rows(rows, taking_part)

    def observe(self, played: PlayedRound) -> None:
        """Score every release of a round, and what was held before."""
        self.rejected += played.rejected
        self.events = dict(played.events)
        self.unexplained |= played.unexplained
        self.course.append(step_of(played))
        self.uniform += [uniform_p(numbers) for _, numbers in played.held.blind]
        blind = centred(played.held)
        for request in played.requests:
            left = played.published.get(request.name)
            if left is None or (self.own is not None and request.source is SumSource.ITEM_PAIRS):
                continue
            event = played.events[request.name]
            if not request.source.per_item and request.release.width <= _FEW_NUMBERS:
                self.alone.add(request.name)
            moved = self._moved(request, event)
            self.seen[request.name] = _along(
                moved, unit_noise(event, left.values, played.honest[request.name])
            )
            if request.name in played.held.noised:
                under = played.held.noised[request.name] - played.held.known[request.name]
                self.held[request.name] = _along(moved, under / booked_deviations(event))
            if request.name in blind:
                numbers = blind[request.name].astype(np.float64)
                self.blind[request.name] = _along(moved, numbers / max(float(numbers.std()), 1.0))

    def _moved(self, request: Request, event: Event) -> csr_array:
        """What the coin changes: a row against nothing, or against the canary's other row."""
        assert self.rows is not None  # planted before the round
        moved, n = shifts(request, self.rows, booked_deviations(event)), self.present.size
        return csr_array(moved[:n] - moved[n:]) if self.swaps else moved

    def result(self, error: float) -> GameResult:
        """Bounds on what was seen; ``error``: probability that any line of a correct run is flagged."""
        apart = [name for name in self.seen if name not in self.alone]
        events, budget = list(self.events.values()), self.subject.budget
        total = compose_events(events)
        each = error / max(len(apart) + len(self.held), 1)
        releases = tuple(
            self._line(name, event_mu(self.events[name]), [self.seen[name]], each) for name in apart
        )
        whole = self._line(WHOLE_BOARD, total, list(self.seen.values()), error)
        parties = []
        if self.held:
            parties.append(self._line(FIRST, total, list(self.held.values()), each))
        if self.blind:
            parties.append(self._line(BLIND, 0.0, list(self.blind.values()), each))
        return GameResult(
            n_canaries=self.present.size,
            rejected=self.rejected,
            claimed=budget.epsilon,
            epsilon=epsilon_of_events(events, budget.delta),
            delta=budget.delta,
            whole=whole,
            releases=releases,
            parties=tuple(parties),
            unexplained={name: most for name, most in self.unexplained.items() if most},
            course=tuple(self.course),
            uniform=tuple(self.uniform),
        )

    def _line(self, name: str, mu: float, seen: Sequence[Seen], error: float) -> Line:
        return line_of(name, mu, seen, self.present, error=error, rng=self.rng)


def _along(moved: csr_array, residual: FloatArray) -> Seen:
    squares = np.asarray(moved.multiply(moved).sum(axis=1), dtype=np.float64)
    return np.asarray(moved @ residual.ravel()), squares
