"""The canary game: planted users, in or out by a coin, told apart by everything that left in one run.

The adversary knows all honest users, so she subtracts their exact sums; she knows each canary's rows but not
whether they are in. With d_jk what canary j adds to release k, in units of the booked noise,

    score_j = sum_k <released_k - honest_k, d_jk> / sqrt(sum_k |d_jk|^2),

which is N(mu in_j, 1) plus the other canaries' part: random supports and directions are nearly orthogonal, so
that part has mean near 0 and a small variance; it can only blur the game, never sharpen it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.accounting.exact import compose_events, epsilon_of, epsilon_of_events, mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event, event_mu
from fedboard.common.protocols.sums.exact import kept_rows
from fedboard.simulations.audit.attacks.canaries import canary_rows
from fedboard.simulations.audit.measures.bounds import Bound, bound_of, sharp_bound
from fedboard.simulations.audit.measures.scratch import Scratch
from fedboard.simulations.audit.measures.shifts import shifts
from fedboard.simulations.audit.measures.whitening import booked_deviations, unit_noise
from fedboard.simulations.audit.pipeline import PlayedRound, play
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine

WHOLE_BOARD = "all releases together"
_DETECTABLE, _POWER = 0.25, 0.999
_FEWEST, _MOST = 2_000, 40_000
_INTERFERENCE = 4.0
_FEW_NUMBERS = 4096
"""A sum that is not kept per item and has no more numbers than this is audited alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One release, or all together: what is claimed, what was shown."""

    name: str
    mu: float
    """Claimed: from the ledger's events."""
    reach: float
    """Mean over the canaries of the mu that they can show at most, as a share of ``mu``."""
    bound: Bound
    strict: float
    """Sharp lower bound on mu at the family-wise confidence: above ``mu`` it counts as a violation."""


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

    @property
    def epsilon_lower_bound(self) -> float:
        """Sharp lower bound on epsilon of the whole board."""
        return self.whole.bound.epsilon(self.delta)

    @property
    def strict_epsilon(self) -> float:
        """The same at the family-wise confidence."""
        return epsilon_of(self.delta, mu=self.whole.strict)

    @property
    def violated(self) -> bool:
        """Whether the whole board leaks more than it claims, at the game's confidence."""
        return self.whole.bound.sharp > self.whole.mu

    @property
    def violated_releases(self) -> tuple[Line, ...]:
        """Single releases that leak more than they claim, at the family-wise confidence."""
        return tuple(line for line in self.releases if line.strict > line.mu)


def enough_canaries(epsilon: float, delta: float, *, n_items: int, confidence: float = 0.95) -> int:
    """How many canaries show noise that is 20 % too small with probability 0.999.

    Then mu is really 1.25 mu; the estimate deviates by sqrt(4/n + mu^2 / 2n). Beyond about ``4 n_items / mu^2``
    canaries blur each other by more than they add.

    Returns:
        Between 2,000 and 40,000, or fewer where the catalogue is small.
    """
    mu = mu_for(epsilon, delta)
    quantiles = (float(ndtri(confidence)) + float(ndtri(_POWER))) / _DETECTABLE
    wanted = quantiles**2 * (4.0 / mu**2 + (1.0 + _DETECTABLE) ** 2 / 2.0)
    room = _INTERFERENCE * n_items / mu**2
    return int(min(max(wanted, _FEWEST), _MOST, max(room, 10.0)))


def canary_game(
    subject: Subject,
    engine: Engine,
    *,
    seed: int,
    n_canaries: int,
    confidence: float = 0.95,
    family_error: float = 1e-3,
) -> GameResult:
    """Play the game once.

    Args:
        subject: the parts.
        engine: hosts the honest users.
        seed: of the noise, where it is seeded, and of the canaries and their coins.
        n_canaries: how many take part or not.
        confidence: of every lower bound, each on its own.
        family_error: probability that any single release of a correct run is flagged.
    """
    game = _Game(subject, n_canaries, np.random.default_rng([seed, 0xCA9A27]))
    with Scratch(subject, seed=seed + 1) as scratch:
        for played in play(subject, engine, seed=seed, planted=game.plant):
            game.observe(played, scratch)
    return game.result(confidence, family_error)


class _Game:
    """Canaries, their coins, and what the releases have shown about them so far."""

    def __init__(self, subject: Subject, n_canaries: int, rng: np.random.Generator) -> None:
        self._subject, self._rng = subject, rng
        self.present: BoolArray = rng.random(n_canaries) < 0.5
        self._swaps = subject.budget.adjacency == Adjacency.REPLACE
        self._rows: Contribution | None = None
        self._seen: dict[str, tuple[FloatArray, FloatArray]] = {}
        """By release: inner products with the canaries' shifts, and the shifts' squared norms."""
        self._alone: dict[str, tuple[FloatArray, FloatArray]] = {}
        self._events: dict[str, Event] = {}
        self._rejected = 0

    def plant(self, board: Board, requests: Sequence[Request]) -> Contribution:
        """Fresh canaries for this round; those who are in are added.

        Under ``replace`` each canary has two rows, and the coin says which one takes part.
        """
        n, n_items = self.present.size, self._subject.catalogue.n_items
        rows = canary_rows(requests, (1 + self._swaps) * n, n_items=n_items, rng=self._rng)
        taking_part = np.concatenate([self.present, ~self.present]) if self._swaps else self.present
        self._rows = rows
        return kept_rows(rows, taking_part)

    def observe(self, played: PlayedRound, scratch: Scratch) -> None:
        """Score every release of a round."""
        assert self._rows is not None  # planted before the round
        self._rejected += played.rejected
        self._events = dict(played.events)
        for request in played.requests:
            left = played.published.get(request.name)
            if left is None:
                continue
            event = played.events[request.name]
            moved = self._differences(shifts(request, self._rows, booked_deviations(event)))
            residual = unit_noise(event, left.values, played.honest[request.name])
            self._seen[request.name] = np.asarray(moved @ residual.ravel()), _squared_norms(moved)
            if not request.source.per_item and request.release.width <= _FEW_NUMBERS:
                self._alone[request.name] = self._one_by_one(request, scratch)

    def _one_by_one(self, request: Request, scratch: Scratch) -> tuple[FloatArray, FloatArray]:
        """Each canary in a publication of its own."""
        n, n_items = self.present.size, self._subject.catalogue.n_items
        rows = canary_rows([request], (1 + self._swaps) * n, n_items=n_items, rng=self._rng)
        unscaled = shifts(request, rows, np.ones(request.release.width)).toarray().astype(np.int64)
        absent = unscaled[n:] if self._swaps else np.zeros_like(unscaled)
        sums = np.where(self.present[:, None], unscaled[:n], absent)
        event, left = scratch.draw(request, rows=n, sums=sums)
        residual = unit_noise(event, left, absent)
        moved = (unscaled[:n] - absent) / booked_deviations(event)
        return np.einsum("nw,nw->n", moved, residual), np.einsum("nw,nw->n", moved, moved)

    def _differences(self, moved: csr_array) -> csr_array:
        """What the coin changes: a row against nothing, or against the canary's other row."""
        n = self.present.size
        return csr_array(moved[:n] - moved[n:]) if self._swaps else moved

    def result(self, confidence: float, family_error: float) -> GameResult:
        """Bounds on what was seen."""
        strict = 1.0 - family_error / max(len(self._seen), 1)
        events, budget = list(self._events.values()), self._subject.budget
        lines = [
            self._line(name, event_mu(self._events[name]), [self._alone.get(name, seen)], confidence, strict)
            for name, seen in self._seen.items()
        ]
        together = list(self._seen.values())
        whole = self._line(WHOLE_BOARD, compose_events(events), together, confidence, 1.0 - family_error)
        return GameResult(
            n_canaries=self.present.size,
            rejected=self._rejected,
            claimed=budget.epsilon,
            epsilon=epsilon_of_events(events, budget.delta),
            delta=budget.delta,
            whole=whole,
            releases=tuple(lines),
        )

    def _line(
        self,
        name: str,
        mu: float,
        seen: Sequence[tuple[FloatArray, FloatArray]],
        confidence: float,
        strict: float,
    ) -> Line:
        along = np.sum([part[0] for part in seen], axis=0)
        reached = np.sqrt(np.sum([part[1] for part in seen], axis=0))
        scores = np.divide(along, reached, out=np.zeros_like(reached), where=reached > 0)
        return Line(
            name=name,
            mu=mu,
            reach=float(np.mean(reached)) / mu,
            bound=bound_of(scores, self.present, confidence=confidence, rng=self._rng),
            strict=sharp_bound(scores, self.present, confidence=strict),
        )


def _squared_norms(rows: csr_array) -> FloatArray:
    return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64)


__all__ = ["WHOLE_BOARD", "GameResult", "Line", "canary_game", "enough_canaries"]
