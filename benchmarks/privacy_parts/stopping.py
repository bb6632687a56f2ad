"""Who stops when the outcomes suit: how often a stated epsilon is exceeded, and that what is claimed now is not.

One user is in the data or not. Whoever runs the server makes Gaussian releases of equal mu, looks at each, and
stops where he likes; a certificate then states an epsilon at a delta. He wants to be wrong as often as he can, and
nobody can do better than the best rule for stopping. It is found here backwards over the loss (the logarithm of the
ratio of the densities of all that was released), a random walk with steps N(mu^2 / 2, mu^2):

    V_k(loss) = max(1 - e^(epsilon_k - loss), E V_(k + 1)(loss + step)),    V_0(0) is the true delta.

* *spent*: epsilon_k is the exact cost of the k releases at delta, which certificates stated before: too little.
* *budget*: epsilon_k is what a certificate claims now without a plan; *plan*: what it claims of a run that is
  stopped. Both are constant, so stopping early gains nothing (the payoff is convex in e^-loss, which is a
  martingale), and the true delta is that of all releases, exactly.

The grid's numbers are upper bounds: V is convex in e^-loss, so it lies below its chords. *played* is the same rule
on random walks, by importance sampling. It fails if a claim of today is exceeded.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import ndtr

from fedboard.common.arrays import FloatArray
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import delta_of, epsilon_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment

SETTINGS = ((0.1, 25), (0.2, 400))
_DEVIATIONS = 10.0
CELLS = 64  # of a grid, in one deviation of a step
_EXACT = 2e-3  # relatively, how far the grid may lie above the exact delta where that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """At most n releases of one mu."""

    mu: float
    releases: int

    @property
    def steps(self) -> range:
        """Numbers of releases after which one may stop."""
        return range(self.releases + 1)

    def cost(self, made: int, delta: float) -> float:
        """Exact epsilon of so many releases, fixed beforehand."""
        return epsilon_of(delta, mu=self.mu * math.sqrt(made))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Losses in steps of one width, and how a release moves them."""

    width: float
    lowest: int
    """Index of the first loss."""
    losses: FloatArray
    kernel: FloatArray
    """Probability of a move by ``first``, ``first + 1``, ... cells."""
    first: int
    beyond: float
    """Probability of a larger move; it counts as a certain win."""

    @classmethod
    def of(cls, game: Game, *, reach: float = 0.0) -> "Grid":
        """A grid that holds all losses of a game within ten deviations.

        Args:
            game: which.
            reach: further losses that something else may add.
        """
        width = game.mu / CELLS
        mean, deviation = game.releases * game.mu**2 / 2, math.sqrt(game.releases) * game.mu
        span = _DEVIATIONS * deviation + reach
        lowest, highest = math.floor((-mean - span) / width), math.ceil((mean + span) / width)
        kernel, first, beyond = _gaussian_kernel(game.mu, width)
        losses = width * np.arange(lowest, highest + 1)
        return cls(width=width, lowest=lowest, losses=losses, kernel=kernel, first=first, beyond=beyond)

    def after(self, worth: FloatArray) -> FloatArray:
        """Expected worth after one release: what lies below the grid is worth as much as its end, above it 1."""
        last = self.first + self.kernel.size - 1
        padded = np.concatenate([np.full(max(-self.first, 0), worth[0]), worth, np.ones(max(last, 0))])
        moved = fftconvolve(padded, self.kernel[::-1], mode="valid")
        return np.clip(moved[: worth.size] + self.beyond, 0.0, 1.0)

    def moved(self, worth: FloatArray, cells: int) -> FloatArray:
        """Worth after a move by a number of cells that is certain."""
        found = np.ones_like(worth) if cells > 0 else np.full_like(worth, worth[0])
        if cells > 0:
            found[:-cells] = worth[cells:]
        else:
            found[-cells:] = worth[: worth.size + cells]
        return found

    def payoff(self, epsilon: float) -> FloatArray:
        """How much an outcome adds to delta if epsilon is stated."""
        return np.maximum(-np.expm1(epsilon - self.losses), 0.0)

    def at_zero(self, worth: FloatArray) -> float:
        """Worth before anything was released."""
        return float(worth[-self.lowest])


def _gaussian_kernel(mu: float, width: float) -> tuple[FloatArray, int, float]:
    """The step N(mu^2 / 2, mu^2), each move shared between the two cells about it so that E e^-loss is kept.

    So the expectation of a function that is convex in e^-loss gets no smaller (Doroshenko et al. 2022,
    arXiv:2207.04380, connect the dots).
    """
    first = math.floor((mu * mu / 2 - _DEVIATIONS * mu) / width)
    last = math.ceil((mu * mu / 2 + _DEVIATIONS * mu) / width)
    ends = width * np.arange(first, last + 1)
    with_user = np.diff(ndtr((ends - mu * mu / 2) / mu))
    without = np.diff(ndtr((ends + mu * mu / 2) / mu))  # E e^-loss over the cell
    low, high = np.exp(-ends[:-1]), np.exp(-ends[1:])
    kernel = np.zeros(ends.size)
    kernel[:-1] += np.maximum((without - high * with_user) / (low - high), 0.0)
    kernel[1:] += np.maximum((low * with_user - without) / (low - high), 0.0)
    return kernel, first, float(ndtr(-_DEVIATIONS) * 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best rule for stopping."""

    delta: float
    """What it reaches: the true delta of the claims; from above."""
    thresholds: tuple[float, ...]
    """After so many releases he stops at a loss from here on."""


def best_stopping(game: Game, claimed: Sequence[float]) -> Best:
    """Solve the game.

    Args:
        game: which.
        claimed: epsilon that is stated after 0, 1, ... releases.
    """
    grid = Grid.of(game)
    worth = grid.payoff(claimed[-1])
    thresholds = [_first_loss(grid, worth > 0)]
    for epsilon in reversed(claimed[:-1]):
        stop, on = grid.payoff(epsilon), grid.after(worth)
        thresholds.append(_first_loss(grid, (stop > 0) & (stop >= on)))
        worth = np.maximum(stop, on)
    return Best(delta=grid.at_zero(worth), thresholds=tuple(reversed(thresholds)))


def _first_loss(grid: Grid, chosen: Any) -> float:
    return float(grid.losses[np.argmax(chosen)]) if np.any(chosen) else math.inf


def play(
    game: Game, claimed: Sequence[float], best: Best, *, n_plays: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Play by a rule on random walks; rare wins are sampled more often and weighted down.

    Returns:
        Delta that was reached, and its standard error.
    """
    drift = max(claimed[-1] / game.releases - game.mu**2 / 2, 0.0)
    loss, done = np.zeros(n_plays), np.zeros(n_plays, dtype=bool)
    won = np.zeros(n_plays)
    for made in range(1, game.releases + 1):
        step = game.mu**2 / 2 + drift + game.mu * rng.standard_normal(n_plays)
        loss = np.where(done, loss, loss + step)
        stops = ~done & ((loss >= best.thresholds[made]) | (made == game.releases))
        tilt = (drift * (loss - made * game.mu**2 / 2) - made * drift**2 / 2) / game.mu**2
        reached = np.maximum(-np.expm1(np.minimum(claimed[made] - loss, 0.0)), 0.0)
        won = np.where(stops, reached * np.exp(-tilt), won)
        done |= stops
    return float(won.mean()), float(won.std() / math.sqrt(n_plays))


def chosen_on_the_way(
    budget: Budget, *, mu: float, pure: int, allowed: Callable[[int, int], bool], most: tuple[int, int]
) -> float:
    """The true delta of a budget where Gaussian and pure releases are chosen on the way, as well as possible.

    Args:
        budget: what is claimed.
        mu: of each Gaussian release.
        pure: epsilon of each pure release, the worst of its kind (randomised response), in cells of the grid.
        allowed: whether so many pure and so many Gaussian releases may be made.
        most: numbers that are surely refused, of each kind.

    Returns:
        It, from above.
    """
    n_pure, n_gaussian = most
    game = Game(mu=mu, releases=n_gaussian)
    grid = Grid.of(game, reach=n_pure * pure * mu / CELLS)
    up = 1.0 / (1.0 + math.exp(-pure * grid.width))
    stop = grid.payoff(budget.epsilon)
    worth: dict[tuple[int, int], FloatArray] = {}
    for made in sorted(np.ndindex(n_pure + 1, n_gaussian + 1), key=sum, reverse=True):
        if not allowed(*made):
            continue
        ways = [stop]
        if (more := worth.get((made[0] + 1, made[1]))) is not None:
            ways.append(up * grid.moved(more, pure) + (1 - up) * grid.moved(more, -pure))
        if (more := worth.get((made[0], made[1] + 1))) is not None:
            ways.append(grid.after(more))
        worth[made] = np.maximum.reduce(ways)
    return grid.at_zero(worth[0, 0])


def claims_today(game: Game, delta: float) -> dict[str, list[float]]:
    """What certificates state after each number of releases: as before, and as the product does now."""
    spent = [game.cost(made, delta) for made in game.steps]
    budget = Budget(epsilon=spent[-1], delta=delta, adjacency=Adjacency.ADD_REMOVE)
    plan = {f"release-{number}": 1.0 / game.mu for number in range(1, game.releases + 1)}
    return {
        "spent": spent,
        "budget": [Commitment.of(budget).claim().epsilon] * len(spent),
        "plan": [Commitment.of(budget, plan).claim().epsilon] * len(spent),
    }


def judge(game: Game, delta: float, *, n_plays: int, rng: np.random.Generator) -> dict[str, Any]:
    """All ways of claiming in one game."""
    found: dict[str, Any] = {"mu": game.mu, "releases": game.releases, "claimed_delta": delta, "claims": {}}
    for name, claimed in claims_today(game, delta).items():
        best = best_stopping(game, claimed)
        played, error = play(game, claimed, best, n_plays=n_plays, rng=rng)
        row = {
            "epsilon": claimed[-1],
            "true_delta": best.delta,
            "played": {"delta": played, "standard_error": error},
        }
        if name != "spent":
            exact = delta_of(claimed[-1], mu=game.mu * math.sqrt(game.releases))
            row |= {"by_grid": best.delta, "true_delta": exact}
            row["holds"] = exact <= delta and best.delta <= exact * (1 + _EXACT)
        found["claims"][name] = row
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command line."""
    parser.add_argument("--delta", type=float, default=1e-5, help="the delta that is stated, in (0, 1)")
    parser.add_argument("--plays", type=int, default=200_000, help="random walks per game, > 0")


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Play every setting."""
    rng = np.random.default_rng(0)
    games = [
        judge(Game(mu=mu, releases=releases), given.delta, n_plays=given.plays, rng=rng)
        for mu, releases in SETTINGS
    ]
    holds = all(row.get("holds", True) for game in games for row in game["claims"].values())
    return {"games": games, "holds": holds}
