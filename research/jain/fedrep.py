"""Alternating minimisation and private FedRep side by side, against people, features, rank and epsilon."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
import numpy as np
from matplotlib.figure import Figure

from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.simulations.data.synthetic.examples import SharedLinear
from research.jain.methods import FIRST_SEED, error_of, errors_without, means, ways
from research.shared.experiment import Outcome, Setting
from research.shared.panels import Panel, draw_panels

_NAMES = {
    "own": "own data only",
    "single": "single private model",
    "altmin-as-printed": "alternating minimisation as printed",
    "altmin": "alternating minimisation, residual answers",
    "fedrep-as-stated": "private FedRep, one clipping norm",
    "fedrep": "private FedRep",
    "nonprivate": "shared, without privacy",
}
_DRAWN = {name: label for name, label in _NAMES.items() if name != "fedrep-as-stated"}
"""As many as there are colours to tell apart; the tables have all."""
_OURS, _THEIRS = "altmin / fedrep", "as printed / as stated"
_AXES = {
    "users": "users n",
    "dimension": "features d",
    "rank": "rank k",
    "epsilon": "epsilon per user",
    "epsilon_at_their_size": "epsilon per user, at the size of its authors",
}
_BOUNDED = {"altmin-as-printed": 3, "fedrep-as-stated": 2}
"""Powers of d in the bounds on what privacy adds: d^3 k^2 of Jain et al., d^2 k of Snedeker et al."""
_Errors: TypeAlias = dict[str, dict[str, float]]
"""Mean squared error by method and value of what is varied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedRepBeside:
    """The experiment: from one base, each of the four is varied by itself; then the size of its authors' own."""

    base: SharedLinear = field(
        default_factory=lambda: SharedLinear(users=5000, examples=10, dimension=20, rank=2)
    )
    epsilon: float = 1.0
    users: tuple[int, ...] = (500, 1500, 5000, 15000)
    dimensions: tuple[int, ...] = (10, 20, 40)
    ranks: tuple[int, ...] = (1, 2, 4)
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    theirs: SharedLinear = field(
        default_factory=lambda: SharedLinear(users=20_000, examples=10, dimension=50, rank=2)
    )
    """As in the experiment of Snedeker et al., whose local vectors have norm 1."""
    their_epsilons: tuple[float, ...] = (1.0, 2.0, 4.0, 6.0, 8.0)
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.REPLACE

    def run(self, setting: Setting) -> Outcome:
        """Every method at every place, averaged over the seeds.

        Raises:
            InputError: data were named; this experiment makes its own.
        """
        if setting.data is not None:
            raise InputError("jain fedrep makes its own data; leave out --data")
        cells, found = self._cells(), dict[tuple[SharedLinear, float], dict[str, float]]()
        for done, cell in enumerate(cells):
            setting.on_progress("cells", done, len(cells))
            seeds = range(FIRST_SEED, FIRST_SEED + setting.seeds)
            found[cell] = means(self._errors(*cell, seed, setting, f"{done}-{seed}") for seed in seeds)
        setting.on_progress("cells", len(cells), len(cells))
        mse = {axis: self._along(axis, found) for axis in _AXES}
        return Outcome(
            numbers={
                **{f"mse_by_{axis}": errors for axis, errors in mse.items()},
                **{f"privacy_error_by_{axis}": _privacy_ratios(errors) for axis, errors in mse.items()},
                "growth_with_dimension": _growth(mse["dimension"]),
            },
            settings=self._settings(setting),
            comparison=self._comparison(mse),
            figures={"jain-fedrep": _figure(mse)},
        )

    def _places(self, axis: str) -> list[tuple[float, tuple[SharedLinear, float]]]:
        """Values of what is varied, with the data and epsilon there."""
        if axis == "epsilon":
            return [(epsilon, (self.base, epsilon)) for epsilon in self.epsilons]
        if axis == "epsilon_at_their_size":
            return [(epsilon, (self.theirs, epsilon)) for epsilon in self.their_epsilons]
        sources = {
            "users": [replace(self.base, users=users) for users in self.users],
            "dimension": [replace(self.base, dimension=dimension) for dimension in self.dimensions],
            "rank": [replace(self.base, rank=rank) for rank in self.ranks],
        }[axis]
        return [(getattr(source, axis), (source, self.epsilon)) for source in sources]

    def _cells(self) -> list[tuple[SharedLinear, float]]:
        """All of them, once each."""
        return list(dict.fromkeys(cell for axis in _AXES for _, cell in self._places(axis)))

    def _errors(
        self, source: SharedLinear, epsilon: float, seed: int, setting: Setting, name: str
    ) -> dict[str, float]:
        population, known = source.sample(seed), ways(source.rank, self.adjacency)
        return errors_without(population) | {
            method: error_of(
                known[method],
                population,
                epsilon=epsilon,
                delta=self.delta,
                seed=seed,
                place=setting.scratch / f"{name}-{method}",
                workers=setting.workers,
            )
            for method in _NAMES
            if method in known
        }

    def _along(self, axis: str, found: Mapping[tuple[SharedLinear, float], Mapping[str, float]]) -> _Errors:
        return {
            method: {f"{value:g}": found[cell][method] for value, cell in self._places(axis)}
            for method in _NAMES
        }

    def _settings(self, setting: Setting) -> dict[str, Any]:
        return {
            "base": msgspec.to_builtins(self.base),
            "theirs": msgspec.to_builtins(self.theirs),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "seeds": list(range(FIRST_SEED, FIRST_SEED + setting.seeds)),
            "noise": "seeded; a simulation",
            "chosen_on": "clipping norms and rate of FedRep, step bounds and shares: data of seed 0",
        }

    def _comparison(self, mse: Mapping[str, _Errors]) -> str:
        told = "; ".join(
            f"{_AXES[axis]} {', '.join(f'{v}: {_told(r)}' for v, r in _privacy_ratios(errors)[_OURS].items())}"
            for axis, errors in mse.items()
        )
        powers = "; ".join(
            f"{_NAMES[name]} d^{power:.2g}, bounded by d^{_BOUNDED[name]}"
            for name, power in _growth(mse["dimension"]).items()
            if power is not None
        )
        grown = f" It grows with the features like {powers}." if powers else ""
        return (
            "Snedeker, Zhou and Bassily (2025) prove a privacy error smaller by a factor of about d k than that of "
            "Jain et al. What privacy adds to the error, alternating minimisation (residual answers) over private "
            f"FedRep: {told}. Above 1 FedRep is better.{grown}"
        )


BESIDE = FedRepBeside()


def fedrep(setting: Setting) -> Outcome:
    """At its usual size, or at the epsilons that are asked for."""
    return replace(BESIDE, epsilons=setting.epsilons_or(*BESIDE.epsilons)).run(setting)


def _privacy_ratios(errors: _Errors) -> dict[str, dict[str, float | None]]:
    """What privacy adds to the error, of alternating minimisation over FedRep: as we run them, and as their papers
    have them. None where FedRep's error is not above that without privacy.
    """
    pairs = {_OURS: ("altmin", "fedrep"), _THEIRS: ("altmin-as-printed", "fedrep-as-stated")}
    found: dict[str, dict[str, float | None]] = {name: {} for name in pairs}
    for name, (first, second) in pairs.items():
        for value, nothing in errors["nonprivate"].items():
            added = errors[second][value] - nothing
            found[name][value] = (errors[first][value] - nothing) / added if added > 0 else None
    return found


def _growth(errors: _Errors) -> dict[str, float | None]:
    """Power of what is varied that the error of privacy grows like, by least squares on logarithms.

    None where there is a single value, or no error of privacy.
    """
    found: dict[str, float | None] = {}
    for name in _BOUNDED:
        values = np.array([float(value) for value in errors[name]])
        added = np.array([error - errors["nonprivate"][value] for value, error in errors[name].items()])
        measured = values.size > 1 and bool(np.all(added > 0))
        found[name] = float(np.polyfit(np.log(values), np.log(added), 1)[0]) if measured else None
    return found


def _told(ratio: float | None) -> str:
    return "no privacy error" if ratio is None else f"{ratio:.3g}"


def _figure(mse: Mapping[str, _Errors]) -> Figure:
    return draw_panels(
        [
            Panel(
                title=label,
                lines={name: list(errors[method].values()) for method, name in _DRAWN.items()},
                ticks=list(errors["fedrep"]),
                across=label,
                up="mean squared error",
                log=True,
            )
            for label, errors in ((_AXES[axis], mse[axis]) for axis in _AXES)
        ]
    )
