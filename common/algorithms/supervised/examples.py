"""Examples: the features and labels of the users that one client hosts. A phone hosts one user.

And tasks on them: what such an algorithm says of itself, and how its rows are made, each user by herself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.arrays import (
    BitArray,
    BoolArray,
    Float32Array,
    FloatArray,
    IndexArray,
    IntArray,
    ascends,
)
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, numbers_of, of_totals
from fedboard.common.errors import InputError
from fedboard.common.task import ReleasedSums, RoundTask


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Examples:
    """Examples (x, y) of ``n_users`` users in compressed rows. Private: they stay on its device."""

    indptr: IntArray
    """int64, shape (n_users + 1,): user j holds the examples ``indptr[j]:indptr[j + 1]``."""
    features: Float32Array
    """float32, shape (n_examples, dimension), finite."""
    labels: Float32Array
    """float32, shape (n_examples,), finite; 0 or 1 for the logistic loss."""

    def __post_init__(self) -> None:
        """Check shapes and that all is finite.

        Raises:
            InputError: the arrays do not fit together, or hold NaN or infinity.
        """
        fits = self.indptr.ndim == 1 and self.indptr.size >= 1 and self.features.ndim == 2
        if not fits or self.labels.shape != (self.features.shape[0],):
            raise InputError("examples need indptr (n_users + 1,), features (n, dimension) and labels (n,)")
        ascending = self.indptr[0] == 0 and ascends(self.indptr)
        if not ascending or self.indptr[-1] != self.labels.size:
            raise InputError("the indptr of examples must ascend from 0 to the number of examples")
        if not (np.isfinite(self.features).all() and np.isfinite(self.labels).all()):
            raise InputError("features and labels must be finite numbers")

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.indptr.size - 1

    @property
    def dimension(self) -> int:
        """Number of features, d. Public."""
        return int(self.features.shape[1])

    def rows(self, users: IndexArray) -> "Examples":
        """The examples of some users, in the order given.

        Args:
            users: int32, shape (n,), row numbers.
        """
        counts = np.diff(self.indptr)[users]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        shift = np.repeat(self.indptr[users] - indptr[:-1], counts)
        entries = np.arange(indptr[-1]) + shift
        return Examples(indptr=indptr, features=self.features[entries], labels=self.labels[entries])

    def padded(self) -> "PaddedExamples":
        """All users with as many places as the one with most examples: for a block of users."""
        counts = np.diff(self.indptr)
        places = np.arange(int(counts.max(initial=0)))
        used = places[None, :] < counts[:, None]
        features = np.zeros((*used.shape, self.dimension))
        labels = np.zeros(used.shape)
        features[used], labels[used] = self.features, self.labels
        return PaddedExamples(features=features, labels=labels, used=used)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PaddedExamples:
    """A block of users in arrays of one shape. Private."""

    features: FloatArray
    """float64, shape (n_users, places, dimension); 0 in places that are not used."""
    labels: FloatArray
    """float64, shape (n_users, places)."""
    used: BoolArray
    """bool, shape (n_users, places)."""


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


MOST_NUMBERS = 1 << 22
"""That one user is asked for in a round, 32 MiB: what a board may ask of a device."""


@dataclass(frozen=True, slots=True)
class CohortTask:
    """A task on examples, as engines, fleets and devices run it: its clients are cohorts.

    Guarantee: a user's row is computed from her examples and the board, by the same operations whoever else is in
    the cohort. A block of users computed at once may differ in the last bit of a float, and so by a unit of the
    grid, with the number of places that the one with most examples needs; one user's presence would then move other
    people's rows, which no noise is counted for.
    """

    task: PredictingTask

    @property
    def name(self) -> str:
        """Registered name."""
        return self.task.name

    @property
    def config(self) -> Mapping[str, Any]:
        """Public configuration."""
        return self.task.config

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """All requests of a complete run."""
        return self.task.plan()

    def first_board(self, catalogue: Catalogue) -> Board:
        """Version 0, over the features that the catalogue lists."""
        return self.task.first_board(catalogue)

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What to ask next.

        Raises:
            InputError: more numbers than a device would send.
        """
        requests = self.task.requests(board)
        numbers = numbers_of(requests)
        if numbers > MOST_NUMBERS:
            raise InputError(
                f"a round over {board.catalogue.n_items} features would ask each user for {numbers:,} numbers, and "
                f"{MOST_NUMBERS:,} are the most; take fewer features or a smaller rank"
            )
        return requests

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board."""
        return self.task.update(board, released)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """One row a user, each computed by itself.

        Raises:
            InputError: ratings without features.
        """
        examples = examples_of(cohort)
        totals: dict[str, IntArray] = {
            request.name: np.zeros((cohort.n_users, request.release.width), dtype=np.int64)
            for request in requests
        }
        for user in range(cohort.n_users):
            own = self.task.contribute(examples.rows(np.array([user], dtype=np.int32)), board, requests)
            for name, rows in totals.items():
                rows[user] = own.totals[name][0]
        return of_totals(totals, n_items=board.catalogue.n_items, n_users=cohort.n_users)


def examples_of(cohort: Cohort) -> Examples:
    """The examples of a cohort; views, not copies. Private.

    Raises:
        InputError: it holds ratings, or numbers that are not finite.
    """
    features = cohort.features
    if features is None:
        if cohort.n_ratings:
            raise InputError("this task learns from examples, and these rows are ratings without features")
        features = np.zeros((0, cohort.n_items), dtype=np.float32)
    return Examples(indptr=cohort.indptr, features=features, labels=cohort.ratings)


def cohort_of(examples: Examples, *, first_row: int = 0, user_keys: BitArray | None = None) -> Cohort:
    """The other way round, for engines and files.

    Args:
        examples: private.
        first_row: number of the first user in the population. Public.
        user_keys: as of a ``Cohort``.
    """
    starts = np.repeat(examples.indptr[:-1], np.diff(examples.indptr))
    return Cohort(
        indptr=examples.indptr,
        items=(np.arange(examples.labels.size) - starts).astype(np.int32),
        ratings=examples.labels,
        n_items=examples.dimension,
        first_row=first_row,
        user_keys=user_keys,
        features=examples.features,
    )
