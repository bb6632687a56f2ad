"""Figure 2: mean squared error of personal models against epsilon, with own data, a single model and no privacy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec
import numpy as np

from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.simulations.data.synthetic.examples import SharedLinear
from research.jain.methods import FIRST_SEED, OWN, WITHOUT, Settings, error_of, errors_without, ways
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Panel, draw_panels

_NAMES = {
    "own": "own data only",
    "single": "single private model",
    "label-answers": "shared, private, answers are labels",
    "disjoint-cohorts": "shared, private, each user asked once",
    "private": "shared, private",
    "nonprivate": "shared, without privacy",
}
_VARIANTS = ("disjoint-cohorts", "label-answers")
_PAPER_ZCDP = {"1": 0.009, "2": 0.04, "5": 0.23, "10": 0.90}
"""What sec. 6 states for its Renyi accounting."""
_Errors: TypeAlias = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure2:
    """The experiment. Defaults are the paper's, sec. 6."""

    source: SharedLinear = field(default_factory=SharedLinear)
    epsilons: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.REPLACE
    """As in its definition 2.1."""

    def run(self, setting: Setting) -> Outcome:
        """All methods at every epsilon, averaged over the seeds.

        Raises:
            InputError: data were named; this experiment makes its own.
        """
        if setting.data is not None:
            raise InputError("jain 2 makes its own data, as the paper does; leave out --data")
        seeds = range(FIRST_SEED, FIRST_SEED + setting.seeds)
        found = [self._of_seed(seed, setting) for seed in seeds]
        keys = [f"{epsilon:g}" for epsilon in self.epsilons]
        mse, deviation = (
            {name: {key: float(of([one[name][key] for one in found])) for key in keys} for name in _NAMES}
            for of in (np.mean, np.std)
        )
        main = [name for name in _NAMES if name not in _VARIANTS]
        zcdp = {
            "ours": {f"{e:g}": mu_for(e, self.delta) ** 2 / 2 for e in self.epsilons},
            "paper": {key: _PAPER_ZCDP.get(key) for key in keys},
        }
        panel = Panel(
            title="Personal models on a shared representation",
            lines={label: list(mse[name].values()) for name, label in _NAMES.items()},
            ticks=keys,
            across="epsilon per user",
            up="population mean squared error",
            log=True,
        )
        return Outcome(
            numbers={
                "mse": {name: mse[name] for name in main},
                "mse_deviation": {name: deviation[name] for name in main},
                "mse_variants": {name: mse[name] for name in _VARIANTS},
                "zcdp": zcdp,
            },
            settings={
                "source": msgspec.to_builtins(self.source),
                "delta": self.delta,
                "adjacency": str(self.adjacency),
                "seeds": list(seeds),
                "tasks": {name: msgspec.to_builtins(task) for name, task in self.tasks().items()},
                "noise": "seeded; a simulation",
                "chosen_on": "step bounds and shares: data of seed 0 with noise of seed 1",
            },
            comparison=self._comparison(mse),
            figures={"jain-2": draw_panels([panel])},
        )

    def tasks(self) -> Mapping[str, Settings]:
        """What is run privately: ours, variants that are closer to the algorithms as printed, and one model."""
        known = ways(self.source.rank, self.adjacency)
        return {
            "private": known["altmin"],
            "disjoint-cohorts": known["altmin-disjoint"],
            "label-answers": known["altmin-as-printed"],
            "single": known["single"],
        }

    def _of_seed(self, seed: int, setting: Setting) -> _Errors:
        """Errors by method and epsilon."""
        phase, steps, done = f"seed {seed}", 1 + len(self.epsilons) * len(self.tasks()), 1
        setting.on_progress(phase, 0, steps)
        population = self.source.sample(seed)
        without = errors_without(population)
        found: _Errors = {name: {f"{e:g}": without[name] for e in self.epsilons} for name in (OWN, WITHOUT)}
        for name, settings in self.tasks().items():
            for epsilon in self.epsilons:
                setting.on_progress(phase, done, steps)
                found.setdefault(name, {})[f"{epsilon:g}"] = error_of(
                    settings,
                    population,
                    epsilon=epsilon,
                    delta=self.delta,
                    seed=seed,
                    place=setting.scratch / f"{name}-{epsilon:g}-{seed}",
                    workers=setting.workers,
                )
                done += 1
        setting.on_progress(phase, steps, steps)
        return found

    def _comparison(self, mse: _Errors) -> str:
        at = "5" if "5" in mse["private"] else f"{self.epsilons[-1]:g}"
        first, private, without = f"{self.epsilons[0]:g}", mse["private"], mse["nonprivate"][at]
        return (
            "The paper: comparable to no privacy at epsilon about 5, and a single model that stays far off. "
            f"Here, on data made the same way ({self.source.users:,} users), {private[at]:.3g} at epsilon {at}, "
            f"{private[at] / without:.3f} times the {without:.3g} without privacy, and {private[first]:.3g} at "
            f"epsilon {first}; own data {mse['own'][at]:.3g}, single model {mse['single'][at]:.3g}."
        )


FIGURE = Figure2()


def figure_2(setting: Setting) -> Outcome:
    """At the paper's size, or at the epsilons that are asked for."""
    return replace(FIGURE, epsilons=setting.epsilons_or(*FIGURE.epsilons)).run(setting)
