"""From a cohort whose entries are examples to the rows of a task on examples, each user by herself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, numbers_of, of_totals
from fedboard.common.errors import InputError
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.on_examples.examples import Examples
from fedboard.common.tasks.on_examples.record import PredictingTask

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
