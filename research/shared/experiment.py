"""An experiment of a paper: what it is called, which data it takes, and how it is run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.tuned import TUNED
from fedboard.simulations.config import DataConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    """By file stem; drawn with ``simulations.report.drawing``, whose style is on while the experiment runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One figure or table of a paper."""

    paper: str
    """Name of the paper's package, e.g. ``jain``."""
    figure: str
    """Number of the figure, e.g. ``2``; a group of figures is ``6-10``, a table ``table-3``."""
    title: str
    minutes: float
    """Rough time with the default flags on 2 cores."""
    data: str
    """Which data it takes, and what ``--data`` may name."""
    run: Callable[[Setting], Outcome]
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
