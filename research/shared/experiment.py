"""An experiment of a paper: what it is called, which data it takes, and how it is run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.algorithms.shared.tuned import TUNED
from fedboard.simulations.sections import DataConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_FEW = {"n_users": 150, "n_items": 40, "mean_ratings_per_user": 15}
"""Made-up people of a small run."""


class Progress(Protocol):
    """Hears how an experiment is getting on."""

    def __call__(self, phase: str, done: int, total: int, /) -> None:
        """``done`` of ``total`` steps of a phase are finished; ``phase`` is shown as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the user asked for."""

    data: DataConfig | None = None
    """Her copy of the paper's data; None: the nearest set there is, or synthetic data, as the experiment says."""
    more_data: tuple[DataConfig, ...] = ()
    """Further data sets, for an experiment that holds ``several`` side by side."""
    epsilons: tuple[float, ...] = ()
    """What she asks for in place of the figure's; () for those."""
    recipe: str = TUNED
    """Whose settings the algorithms have; of an experiment with ``recipes``."""
    seeds: int = 3
    """Repetitions, with seeds 0, 1, ..."""
    workers: int = 1
    """Processes or threads that it may use."""
    scratch: Path
    """Existing folder for runs and caches, emptied afterwards; of an experiment ``in_parts`` it is kept."""
    most_users: float | None = None
    """The largest number of users that she asks for, of an experiment with ``users``; None for the usual."""
    on_progress: Progress

    def epsilons_or(self, *usual: float) -> tuple[float, ...]:
        """Those asked for, else the figure's own."""
        return self.epsilons or usual

    def each_data(self) -> "tuple[Setting, ...]":
        """The setting once for each data set, with a scratch folder of its own where there are several."""
        if not self.more_data:
            return (self,)
        found = []
        for number, data in enumerate((self.data, *self.more_data)):
            scratch = self.scratch / f"data-{number}"
            scratch.mkdir(exist_ok=True)
            found.append(replace(self, data=data, more_data=(), scratch=scratch))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    numbers: Mapping[str, Any]
    """By name, nested, e.g. ``{"mse": {"private": {"1": 0.1}}}``; the top-level keys of the JSON file."""
    settings: Mapping[str, Any]
    """Everything needed to repeat it."""
    comparison: str
    """A sentence or two: what the paper has, what we have, on which data."""
    figures: Mapping[str, "Figure"]
    """By file stem; drawn with ``simulations.reports.drawing``, whose style is on while the experiment runs."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure or table of a paper: a table of ``research/experiments.toml``."""

    paper: str
    """Whose, e.g. ``jain``."""
    figure: str
    """Number of the figure, e.g. ``2``; a table is ``table-3``."""
    title: str
    minutes: float
    """Rough time with the default flags on 2 cores."""
    data: str
    """Which data it takes, and what ``--data`` may name."""
    run: str
    """``folder.module:function`` of a setting; with ``given``, of what makes one."""
    given: dict[str, Any] = {}
    feedbacks: tuple[Feedback, ...] = ()
    """What its ratings are read as, by any reader there is; () where ``--data`` names no ratings."""
    several: bool = False
    """Whether it holds several data sets side by side, each a ``--data`` of its own."""
    files: bool = False
    """Whether ``--data`` names files of a kind of their own."""
    epsilons: tuple[float, ...] = ()
    """Those of the figure, which others can replace; () where it has none of its own."""
    one_epsilon: bool = False
    """Whether it shows a single one."""
    users: tuple[int, ...] = ()
    """The numbers of users that it can go through; () where there is no choice."""
    in_parts: bool = False
    """Whether its parts are kept, so that an interrupted one goes on."""
    recipes: tuple[str, ...] = ()
    """Whose settings it can run with, the usual first; () where there is no choice."""
    small: dict[str, Any] = {}
    """Of a run of seconds: constants of modules by ``folder.module.NAME`` or a field of one, and their values."""

    def made_small(self, data: Sequence[DataConfig], epsilons: tuple[float, ...]) -> dict[str, Any]:
        """Make it a run of seconds: the modules' constants are changed for good.

        Args:
            data: those of the setting; some are kept.
            epsilons: likewise.

        Returns:
            What of the setting is another.
        """
        for name, value in self.small.items():
            _put(name, value)
        own = DataConfig(synthetic=dict(_FEW)) if self.feedbacks and self.paper != "population" else None
        return {"data": data[0] if data else own, "epsilons": epsilons or self.epsilons[:1]}

    def outcome(self, setting: Setting) -> Outcome:
        """Run it."""
        module, _, function = self.run.partition(":")
        found = getattr(import_module(f"research.{module}"), function)
        if self.given:
            made: Callable[[Setting], Outcome] = found(
                **{key: Feedback(value) if key == "feedback" else value for key, value in self.given.items()}
            )
            return made(setting)
        outcome: Outcome = found(setting)
        return outcome


def _put(name: str, value: Any) -> None:
    """Change the constant of a module, or a field of one that is a dataclass."""
    folder, place, constant, *fields = name.split(".")
    module = import_module(f"research.{folder}.{place}")
    setattr(module, constant, _changed(getattr(module, constant), fields, value))


def _changed(old: Any, fields: list[str], value: Any) -> Any:
    if not fields:
        return msgspec.convert(value, type(old))
    return replace(old, **{fields[0]: _changed(getattr(old, fields[0]), fields[1:], value)})
