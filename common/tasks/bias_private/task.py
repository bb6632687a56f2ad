"""Private item biases, and on each device a bias of her own: the floor of everything for ratings.

* moments: users, their mean rating and mean square, so that centre and scale of ratings are released, not assumed;
* first round: ``T_i = sum_j w_ij r_ij`` and ``c_i = sum_j w_ij`` with r = y - mean, w_ij = f_j / sqrt(n_j), where
  f_j = min(1, C / rms(r_j)) bounds the whole row: a user of 2 and one of 2 000 ratings weigh the same, with no cap;
* second round (``bias-private``): the same with the effects found and each user's own bias taken out on her device.

b_i is the posterior mean given T_i, c_i and their known noise (``noisy_effects``, ``noisy_counts``); a person's own
model is one number, ``own = sum_i (y - mean - b_i) / (n + user_ridge)``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.bias_private.config import BiasConfig
from fedboard.common.tasks.bias_private.update import after_first, after_moments, after_second
from fedboard.common.tasks.shared.levels import (
    even_counts_request,
    even_rows,
    even_sums_request,
    even_weights,
)
from fedboard.common.tasks.shared.rating_level import (
    USUAL_SPREAD,
    in_range,
    moments_of,
    moments_request,
    spread_of,
)
from fedboard.common.tasks.shared.written import as_written


@dataclass(frozen=True, slots=True)
class BiasPrivate:
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "bias-private"
    settings: BiasConfig
    backend: str = "numpy"

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able."""
        return as_written(self.settings)

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """Moments, then one or two rounds over items; ``n_items`` is the board's when asked."""
        return tuple(self._asked(version, n_items=1) for version in range(1 + self.settings.rounds))

    def first_board(self, catalogue: Catalogue) -> Board:
        """No item is better than another, ratings are what they usually are; holds no data."""
        n_items, shared = catalogue.n_items, self.settings.shared
        return Board(
            version=0,
            task=self.name,
            config=self.config,
            arrays={
                "mean": np.array([shared.centre]),
                "spread": np.array([USUAL_SPREAD * shared.half_range]),
                "item_biases": np.zeros(n_items, dtype=np.float32),
                "item_counts": np.ones(n_items),
                "item_weights": np.ones(n_items),
                "learnt": np.ones(n_items, dtype=np.uint8),
            },
            catalogue=catalogue.without_features,
        )

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What the round after this board asks; nothing after the last."""
        if board.version > self.settings.rounds:
            return ()
        return self._asked(board.version, n_items=board.catalogue.n_items)

    def _asked(self, version: int, *, n_items: int) -> tuple[Request, ...]:
        settings = self.settings
        if version == 0:
            return (moments_request(settings.shared),)
        name, clip = ("first", settings.first_clip) if version == 1 else ("second", settings.second_clip)
        sums = even_sums_request(settings.shared, name, n_items=n_items, clip_norm=clip)
        return (even_counts_request(settings.shared, n_items=n_items), sums) if version == 1 else (sums,)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        settings = self.settings
        if board.version == 0:
            return Contribution(
                n_items=cohort.n_items,
                indptr=cohort.indptr,
                items=cohort.items,
                totals={"moments": moments_of(cohort, settings.shared)},
            )
        clip = settings.first_clip if board.version == 1 else settings.second_clip
        left = self._left(cohort, board)
        return even_rows(cohort, left, spread=spread_of(board), clip_norm=clip)

    def _left(self, cohort: Cohort, board: Board) -> FloatArray:
        """What the board leaves of each rating, in the second round without the user's own bias. Private."""
        left = in_range(cohort, self.settings.shared) - base_of(board)[cohort.items]
        if board.version > 1:
            left -= self._own(cohort, left)[cohort.user_of_entry()]
        found: FloatArray = left
        return found

    def _own(self, cohort: Cohort, left: FloatArray) -> FloatArray:
        sums = np.bincount(cohort.user_of_entry(), weights=left, minlength=cohort.n_users)
        own: FloatArray = sums / (cohort.counts + self.settings.user_ridge)
        return own

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """1 / sqrt(n_j): evenly, and squares of a row sum to 1; float64, shape (n_ratings,). Private."""
        return even_weights(cohort)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        asked = self.requests(board)
        if board.version == 0:
            return after_moments(board, released, asked[0], self.settings)
        if board.version == 1:
            return after_first(board, released, (asked[0], asked[1]))
        first = self._asked(1, n_items=1)[1]
        return after_second(board, released, asked[0], first)

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """How far above the board each user rates, by ridge; float32, shape (n_users, 1). Private."""
        left = cohort.ratings.astype(np.float64) - base_of(board)[cohort.items]
        return self._own(cohort, left).astype(np.float32)[:, None]

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings on the public range; float64, shape (n_pairs,)."""
        scores, shared = base_of(board)[items] + local[users, 0], self.settings.shared
        ratings: FloatArray = np.clip(scores, shared.rating_low, shared.rating_high)
        return ratings

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """1 for each user and b_i for each item: everybody is recommended the same, but what she has rated."""
        return np.ones_like(local), np.asarray(board.arrays["item_biases"])[:, None]


def base_of(board: Board) -> FloatArray:
    """What the board alone predicts: float64, shape (n_items,). Public."""
    base: FloatArray = float(board.arrays["mean"][0]) + np.asarray(
        board.arrays["item_biases"], dtype=np.float64
    )
    return base
