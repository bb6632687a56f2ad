"""What an algorithm on examples says of itself: all that commands, servers and devices know of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.task import RoundTask
from fedboard.common.tasks.on_examples.examples import Examples
from fedboard.common.tasks.shared.array_rules import ArrayRule


class ExampleTask(RoundTask, Protocol):
    """A task whose clients hold examples."""

    def contribute(self, examples: Examples, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """The answer of a block of users, on the integer grid, within every declared bound."""
        ...


class PredictingTask(ExampleTask, Protocol):
    """One whose boards predict: with a model of each user's own, which stays with her."""

    @property
    def settings(self) -> Any:
        """The public configuration: a frozen dataclass."""
        ...

    def fit_local(self, examples: Examples, board: Board) -> FloatArray:
        """The users' own models, each from her own examples and the board; float64, shape (n_users, width).

        Private.
        """
        ...

    def predict(self, local: FloatArray, board: Board, examples: Examples) -> FloatArray:
        """Expected label of each example of each user, float64, shape (n_examples,). Private."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleAlgorithm:
    """An algorithm on examples. Everything in it is public."""

    name: str
    """Of its task, on every board, and what ``--algorithm`` takes."""
    settings: type[Any]
    """Frozen dataclass of its configuration, with ``adjacency`` and ``noise_multipliers``."""
    shares: type[Any]
    """Frozen dataclass: how the run's mu^2 is shared among the releases."""
    shares_by_release: Callable[[Any, Any], dict[str, float]]
    """(settings, shares) -> share of mu^2 of each release of a complete run; sums to 1."""
    task: Callable[[Any], PredictingTask]
    """Makes the task from its settings."""
    array_rules: Callable[[Board, Any], tuple[ArrayRule, ...]]
    """(board, settings) -> the rules of all arrays that a device reads of a board of this version."""
    fixed: Mapping[str, Any]
    """Settings that a run whose every round asks everybody decides, whatever it is given."""
