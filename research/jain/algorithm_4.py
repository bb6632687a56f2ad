"""Algorithm 4: a representation chosen from a net by the exponential mechanism, where the net is small enough."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.tasks.representation.config import RepresentationConfig
from fedboard.simulations.baselines.examples import own_models, shared_without_privacy
from fedboard.simulations.datasets.synthetic.examples import Population, SharedLinear
from research.jain.drawing import errors_against_epsilon, key_of
from research.jain.methods import Method, personal_error
from research.jain.net import CHOICE, NetChoice, stiefel_net
from research.shared.experiment import Outcome, Setting

EPSILONS = (0.1, 0.3, 1.0, 3.0)
_TITLE = "A representation from a net by the exponential mechanism"
_NAMES = {
    "net": "Alg. 4: chosen from the net",
    "best-of-net": "the net's best, no privacy",
    "altmin": "alternating minimisation",
    "own": "own data only",
    "nonprivate": "shared, without privacy",
}
_FIRST_SEED = 1
_Errors: TypeAlias = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm4:
    """The experiment: what a pure choice from a net is worth, and what the size of the net allows."""

    source: SharedLinear = field(
        default_factory=lambda: SharedLinear(users=4000, examples=2, dimension=3, rank=1)
    )
    epsilons: tuple[float, ...] = EPSILONS
    radius: float = 0.1
    """phi of the net, Frobenius; public."""
    delta: float = 1e-6
    """Of alternating minimisation; the choice needs none."""
    adjacency: Adjacency = Adjacency.REPLACE

    def run(self, setting: Setting) -> Outcome:
        """All methods at every epsilon, averaged over the seeds.

        Raises:
            InputError: data were named, or the net is too large.
        """
        if setting.data is not None:
            raise InputError("jain algorithm-4 makes its own data; leave out --data")
        net = stiefel_net(self.source.dimension, self.source.rank, self.radius)
        steps, found = setting.seeds * (1 + len(self.epsilons)), []
        for number in range(setting.seeds):
            found.append(self._of_seed(net, _FIRST_SEED + number, setting, number, steps))
        mse: _Errors = {
            name: {
                key: float(np.mean([one[name][key] for one in found])) for key in map(key_of, self.epsilons)
            }
            for name in _NAMES
        }
        sizes = {
            f"{d} x {k}": {key_of(phi): _net_size(d, k, phi) for phi in (0.5, 0.1)} for d, k in _SHOWN_SIZES
        }
        return Outcome(
            numbers={
                "mse": mse,
                "grid_points": sizes,
                "net": {"candidates": {key_of(self.radius): len(net)}},
            },
            settings=self._settings(setting, len(net)),
            comparison=self._comparison(mse, len(net)),
            figures={"jain-algorithm-4": errors_against_epsilon(mse, self.epsilons, _NAMES, title=_TITLE)},
        )

    def choice(self, net: FloatArray, epsilon: float) -> NetChoice:
        """The mechanism at this epsilon; bounds are public constants of the family of data."""
        settings = RepresentationConfig(
            rank=self.source.rank,
            vector_bound=3.0,
            adjacency=self.adjacency,
            noise_multipliers={CHOICE: 1.0 / epsilon},
        )
        return NetChoice(settings=settings, feature_bound=3.0, score_bound=2.0, net=net)

    def _of_seed(self, net: FloatArray, seed: int, setting: Setting, number: int, steps: int) -> _Errors:
        first, phase = number * (1 + len(self.epsilons)), "seeds"
        setting.on_progress(phase, first, steps)
        population = self.source.sample(seed)
        keys = [key_of(epsilon) for epsilon in self.epsilons]
        totals = self._totals(net, population)
        settings = RepresentationConfig(rank=self.source.rank)
        best = personal_error(population, net[int(np.argmin(totals))])
        shared = personal_error(population, shared_without_privacy(population.examples, settings))
        own = population.mean_squared_error(np.eye(self.source.dimension), own_models(population.examples))
        mse: _Errors = {
            "best-of-net": dict.fromkeys(keys, best),
            "nonprivate": dict.fromkeys(keys, shared),
            "own": dict.fromkeys(keys, own),
            "net": {},
            "altmin": {},
        }
        method = Method.altmin(rank=self.source.rank, adjacency=self.adjacency)
        for place, (epsilon, key) in enumerate(zip(self.epsilons, keys, strict=True), start=1):
            scratch = setting.scratch / f"{key}-{seed}"
            mse["net"][key] = personal_error(population, self._chosen(net, totals, epsilon, seed, scratch))
            mse["altmin"][key] = method.error(
                population, epsilon=epsilon, delta=self.delta, seed=seed, place=scratch / "altmin"
            )
            setting.on_progress(phase, first + place, steps)
        return mse

    def _totals(self, net: FloatArray, population: Population) -> IntArray:
        """What all users give to each candidate; the same at every epsilon. Private."""
        choice, total = self.choice(net, 1.0), np.zeros(len(net), dtype=np.int64)
        for start in range(0, population.examples.n_users, _USERS_PER_BLOCK):
            stop = min(start + _USERS_PER_BLOCK, population.examples.n_users)
            block = population.examples.rows(np.arange(start, stop, dtype=np.int32))
            total += choice.penalties(block.padded()).sum(axis=0)
        return total

    def _chosen(
        self, net: FloatArray, totals: IntArray, epsilon: float, seed: int, scratch: Path
    ) -> FloatArray:
        """One draw, booked before it is made."""
        scratch.mkdir()
        budget = Budget(epsilon=epsilon, delta=self.delta, adjacency=self.adjacency)
        with Ledger.create(scratch / "net.sqlite", budget) as ledger:
            booked = self.choice(net, epsilon).release().book(ledger, SeededNoise(seed))
            chosen: FloatArray = net[booked.choose([int(penalty) for penalty in totals])]
            return chosen

    def _settings(self, setting: Setting, candidates: int) -> Mapping[str, Any]:
        return {
            "source": msgspec.to_builtins(self.source),
            "radius": self.radius,
            "candidates": candidates,
            "adjacency": str(self.adjacency),
            "delta": self.delta,
            "seeds": list(range(_FIRST_SEED, _FIRST_SEED + setting.seeds)),
            "choice": msgspec.to_builtins(replace(self.choice(np.zeros((1, 1, 1)), 1.0).settings)),
            "noise": "seeded; a simulation",
        }

    def _comparison(self, mse: _Errors, candidates: int) -> str:
        first, last = key_of(self.epsilons[0]), key_of(self.epsilons[-1])
        return (
            "The paper has no figure of Algorithm 4: Theorem 5.2 bounds its error and needs a factor k fewer users "
            f"than alternating minimisation. Here a net of radius {self.radius:g} has {candidates:,} candidates "
            f"({self.source.dimension} x {self.source.rank}, {self.source.users:,} users), the choice has error "
            f"{mse['net'][first]:.3g} at epsilon {first} and {mse['net'][last]:.3g} at {last}, the net's best "
            f"{mse['best-of-net'][last]:.3g}, alternating minimisation {mse['altmin'][first]:.3g} and "
            f"{mse['altmin'][last]:.3g}. What limits it is the net: its radius is an error that no epsilon "
            "removes, and grid points grow like the power d k (table grid_points)."
        )


_USERS_PER_BLOCK = 512
_SHOWN_SIZES = ((2, 1), (3, 1), (3, 2), (5, 2), (50, 2))


def _net_size(dimension: int, rank: int, radius: float) -> float:
    """Points of the grid that a net is made of."""
    numbers = dimension * rank
    return float((2 * math.ceil(math.sqrt(numbers) / radius) + 1) ** numbers)
