"""Private popularity: one release of one number per item, and everybody is recommended the same.

    c_i = sum_j 1 / sqrt(n_j) over the users who have item i, plus noise.

Each user's row has norm 1, whatever she has, so that no cap is tuned and her whole budget is spent; light users, of
whom there are more, decide more. Any other weights of sensitivity 1 give a smaller sum of contributions.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.array_rules import ArrayRule, prepared
from fedboard.common.algorithms.shared.levels import even_counts_request, even_weights
from fedboard.common.algorithms.shared.preparation import answer
from fedboard.common.algorithms.shared.ratings_config import Feedback, RatingsConfig, RatingSettings
from fedboard.common.algorithms.shared.regression import Regression
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.clipping import quantise_weights
from fedboard.common.task import ReleasedSums


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularityConfig(RatingSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    shared: RatingsConfig = field(default_factory=RatingsConfig)
    """What every algorithm on ratings has; of the ratings nothing is looked at but which there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularityShares:
    """There is one release, which gets all of the budget."""


def shares_by_release(settings: PopularityConfig, shares: PopularityShares) -> dict[str, float]:
    """All to the counts."""
    return {"counts": 1.0}


@dataclass(frozen=True, slots=True)
class PopularityPrivate(TaskOfSettings):
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "popularity-private"
    settings: PopularityConfig

    def first_board(self, catalogue: Catalogue) -> Board:
        """No item is better than another; holds no data."""
        n_items = catalogue.n_items
        return self.begun(
            catalogue.without_features,
            popularity=np.zeros(n_items, dtype=np.float32),
            item_counts=np.ones(n_items),
            item_weights=np.ones(n_items),
            learnt=np.ones(n_items, dtype=np.uint8),
        )

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """The counts, once."""
        return () if version else (even_counts_request(self.settings.shared, n_items=n_items),)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers whose squares sum to at most the bound, for every user; ratings are not looked at."""
        return answer(
            cohort,
            weights=quantise_weights(self.weigh(cohort, board)),
        )

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """1 / sqrt(n_j): float64, shape (n_ratings,). Private."""
        return even_weights(cohort)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The counts as they were released: noise of one size moves no item past another on average."""
        counts = released.array("counts")[:, 0]
        return board.successor(
            popularity=counts.astype(np.float32),
            item_counts=np.maximum(counts, 1.0),
        )

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """Nothing is a person's own: ones, float32, shape (n_users, 1)."""
        return np.ones((cohort.n_users, 1), dtype=np.float32)

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """The released count of each item as its score; float64, shape (n_pairs,)."""
        return np.asarray(board.arrays["popularity"], dtype=np.float64)[items]

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """1 for each user and the count for each item."""
        return local, np.asarray(board.arrays["popularity"])[:, None]


def _array_rules(board: Board, settings: PopularityConfig) -> tuple[ArrayRule, ...]:
    """What a device requires of the arrays before it computes anything."""
    counts = ArrayRule(
        name="popularity",
        dtype=np.dtype(np.float32),
        shape=(board.catalogue.n_items,),
        low=-1e12,
        high=1e12,
    )
    return (counts, *prepared(board))


def _regression(settings: PopularityConfig, own: Cohort, board: Board) -> Regression:
    """A board alone: what she has moves nothing."""
    base = np.asarray(board.arrays["popularity"], dtype=np.float64)
    return Regression(vectors=np.zeros((base.size, 1)), base=base, ridge=1.0, gram=0.0)


ALGORITHM = Algorithm(
    name=PopularityPrivate.NAME,
    feedback=frozenset({Feedback.IMPLICIT}),
    settings=PopularityConfig,
    shares=PopularityShares,
    shares_by_release=shares_by_release,
    task=PopularityPrivate.made,
    array_rules=_array_rules,
    regression=_regression,
    floors=("popularity-private",),
)
"""What commands, servers and devices know of it."""
