"""What an algorithm says of itself: all that commands, servers and devices know of it stands in one record."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Any, ClassVar, Protocol, Self

from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.algorithms.shared.ratings_config import Feedback, as_written, has_part
from fedboard.common.algorithms.shared.regression import Regression
from fedboard.common.arrays import FloatArray
from fedboard.common.board import AnyArray, Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.task import Task

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class RatingTask(Task, Protocol):
    """The task of an algorithm on ratings, with its configuration at hand."""

    @property
    def settings(self) -> Any:
        """The public configuration: a frozen dataclass with a field ``shared``, see ``RatingSettings``."""
        ...

    @property
    def backend(self) -> str:
        """Which kernels compute; never changes what is computed."""
        ...


@dataclass(frozen=True, slots=True)
class TaskOfSettings:
    """What a task is made of: its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str]
    """Of the algorithm, on every board."""
    settings: Any
    """The public configuration: a frozen dataclass, see ``RatingSettings``."""
    backend: str = "numpy"
    """Which kernels compute; never changes what is computed."""

    @classmethod
    def made(cls, settings: Any, *, backend: str, features: FloatArray | None) -> Self:
        """As ``Algorithm.task`` says; the features are not looked at."""
        return cls(settings, backend=backend)

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able."""
        return as_written(self.settings)

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """What the round after a board of this version asks; nothing after the last.

        Args:
            version: of the board.
            n_items: size of the catalogue.
            board: None in a plan, where what only a board can say is left as it is at the start.
        """
        raise NotImplementedError

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """All rounds of a complete run; what only a board can say is filled in when a round is asked."""
        found: list[tuple[Request, ...]] = []
        while requests := self.asked(len(found), n_items=1):
            found.append(requests)
        return tuple(found)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What the round after this board asks."""
        return self.asked(board.version, n_items=board.catalogue.n_items, board=board)

    def begun(self, catalogue: Catalogue, **arrays: AnyArray) -> Board:
        """Board 0 with these arrays, which hold no data."""
        return Board(version=0, task=self.name, config=self.config, arrays=arrays, catalogue=catalogue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An algorithm on ratings. Everything in it is public."""

    name: str
    """Of its task, on every board: lower case, words joined by hyphens."""
    feedback: frozenset[Feedback]
    """What it learns from."""
    settings: type[Any]
    """Frozen dataclass of its configuration, see ``RatingSettings``; what has a default may be left out.

    A field ``device_seed``, what devices sample by, gets the run's seed, as ``shared.public_seed`` does."""
    shares: type[Any]
    """Frozen dataclass: how the run's mu^2 is shared among the releases."""
    shares_by_release: Callable[[Any, Any], dict[str, float]]
    """(settings, shares) -> share of mu^2 of each release of a complete run, in its order; sums to 1."""
    task: Callable[..., RatingTask]
    """(settings, backend=, features=) -> the task. ``backend``: which kernels compute. ``features``: of the items,
    public, float64, shape (n_items, n_features), for algorithms whose server uses them; None on devices."""
    array_rules: Callable[[Board, Any], tuple[ArrayRule, ...]]
    """(board, settings) -> the rules of all arrays that a device reads of a board of this version."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Names that ``--algorithm`` takes -> the settings that the name fixes; only its own name if empty."""
    folder: Traversable | None = None
    """Where ``presets.toml`` and ``search.toml`` are; None: the defaults of ``settings`` are the tuned ones."""
    regression: Callable[[Any, Cohort, Board], Regression] | None = None
    """(settings, one person's ratings, board) -> her own model, if it is a ridge regression; for ``explain``."""
    floors: tuple[str, ...] = ()
    """Those of its names that are the simplest private answer, which every comparison shows."""
    complete: Callable[..., Any] | None = None
    """(settings, given=, mu=) -> the settings with what the budget decides. ``given``: names of those that somebody
    set by hand, which stay. ``mu``: of the whole run. None: nothing follows from the budget."""
    not_called: frozenset[str] = frozenset()
    """Kernels (modules of ``common.kernels``) that no run of it calls: a run does not compile them."""

    def __post_init__(self) -> None:
        """Check the names, and that the settings have what the house reads there.

        Raises:
            InputError: one is no name, the algorithm's own is not among its variants, or the settings lack it.
        """
        for name in (self.name, *self.names):
            if not _NAME.fullmatch(name):
                raise InputError(f"algorithm names are lower case words joined by hyphens, got {name!r}")
        if self.name not in self.names:
            raise InputError(
                f"the variants of algorithm {self.name!r} must name it, got {', '.join(self.names)}"
            )
        if not set(self.floors) <= set(self.names):
            raise InputError(
                f"the floors of algorithm {self.name!r} must be among its names, got {self.floors}"
            )
        if not has_part(self.settings):
            raise InputError(
                f"the settings of algorithm {self.name!r} must be a dataclass with a field shared: RatingsConfig, "
                "and none of its keys a second time"
            )
        if not self.feedback:
            raise InputError(
                f"algorithm {self.name!r} must learn from explicit or implicit feedback, or both"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names that ``--algorithm`` takes."""
        return tuple(self.variants) or (self.name,)

    def variant(self, name: str | None = None) -> "Variant":
        """One of ``names``; by default the algorithm's own."""
        return Variant(name=name or self.name, algorithm=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """An algorithm by one of its names. Public."""

    name: str
    algorithm: Algorithm

    @property
    def fixed(self) -> Mapping[str, Any]:
        """The settings that the name decides."""
        return self.algorithm.variants.get(self.name, {})
