"""An algorithm of your own: private item means, damped, and a bias of her own for each person.

    fedboard simulate --algorithm examples/damped_means.py:ALGORITHM

Two rounds: the private mean and counts that all algorithms on ratings share, then one private sum per item,

    b_i = sum_j e_ij clip(y_ij - mean) / (sum_j e_ij + damping),   e_ij = min(1, sqrt(count_cap / n_j)).

A person's own model is one number, on her device: how far above the board she rates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedboard.common.algorithms.shared.algorithm import Algorithm
from fedboard.common.algorithms.shared.array_rules import ArrayRule, mean_rating, prepared
from fedboard.common.algorithms.shared.preparation import (
    capped_counts,
    capped_mean,
    counts_request,
    mean_requests,
    released_mean,
)
from fedboard.common.algorithms.shared.ratings_config import (
    SUM_SHARE_OF_MEAN,
    Feedback,
    RatingsConfig,
    as_written,
)
from fedboard.common.algorithms.shared.regression import Regression
from fedboard.common.algorithms.shared.sums import item_vectors
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import require
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.clipping import clip_responses, clip_vectors, quantise_weights
from fedboard.common.task import ReleasedSums


@dataclass(frozen=True, slots=True, kw_only=True)
class DampedMeansConfig:
    """Everything a device must know to take part. Every field is public by definition."""

    shared: RatingsConfig = field(default_factory=RatingsConfig)
    """What every algorithm on ratings has: their range, what neighbouring means, the noise."""
    deviation_bound: float = 1.5
    """Bound on a rating minus the mean in contributions."""
    damping: float = 20.0
    """Ratings of exactly the mean that every item is taken to have besides."""
    own_damping: float = 5.0
    """Likewise, of every person."""

    def __post_init__(self) -> None:
        """Check every public range; a server need not be honest."""
        feedback = self.shared.feedback
        require(feedback is Feedback.EXPLICIT, "feedback", "explicit: presence has no mean", feedback)
        for name in ("deviation_bound", "damping", "own_damping"):
            require(0.0 < getattr(self, name) < math.inf, name, "finite and > 0", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class DampedMeansShares:
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    mean: float = 0.02
    """Both sums of the private mean together."""
    counts: float = 0.3
    """The private item counts."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("mean", "counts"):
            require(0.0 < getattr(self, name) < 1.0, f"shares.{name}", "in (0, 1)", getattr(self, name))
        require(self.mean + self.counts < 1.0, "shares.mean + shares.counts", "< 1", self.mean + self.counts)


def shares_by_release(settings: DampedMeansConfig, shares: DampedMeansShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, in its order; sums to 1."""
    return {
        "mean/sum": shares.mean * SUM_SHARE_OF_MEAN,
        "mean/number": shares.mean * (1 - SUM_SHARE_OF_MEAN),
        "counts": shares.counts,
        "deviations": 1.0 - shares.mean - shares.counts,
    }


@dataclass(frozen=True, slots=True)
class DampedMeans:
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "damped-means"
    settings: DampedMeansConfig
    backend: str = "numpy"

    @property
    def name(self) -> str:
        """Of the algorithm, on every board."""
        return self.NAME

    @property
    def config(self) -> Mapping[str, Any]:
        """The public configuration, JSON-able."""
        return as_written(self.settings)

    def plan(self) -> tuple[tuple[Request, ...], ...]:
        """Two rounds; ``n_items`` is the board's when asked."""
        return (self._preparation(n_items=1), self._deviations(n_items=1))

    def first_board(self, catalogue: Catalogue) -> Board:
        """No item is better than another; holds no data."""
        biases = np.zeros(catalogue.n_items, dtype=np.float32)
        return Board(
            version=0, task=self.name, config=self.config, arrays={"item_biases": biases}, catalogue=catalogue
        )

    def requests(self, board: Board) -> tuple[Request, ...]:
        """What the round after this board asks; nothing after the second."""
        rounds = (self._preparation, self._deviations)
        return rounds[board.version](n_items=board.catalogue.n_items) if board.version < len(rounds) else ()

    def _preparation(self, *, n_items: int) -> tuple[Request, ...]:
        return (*mean_requests(self.settings.shared), counts_request(self.settings.shared, n_items=n_items))

    def _deviations(self, *, n_items: int) -> tuple[Request, ...]:
        # A user's part is e_ij r_ij over her items: with the squares of e_ij / sqrt(count_cap) summing to at most 1
        # and |r_ij| within its bound, its norm is at most the largest that the grid expresses.
        largest = math.sqrt(self.settings.shared.count_cap) * self.settings.deviation_bound
        covers = "clipped ratings minus the mean per item, each user's row scaled to at most sqrt(count_cap)"
        request = item_vectors(
            self.settings.shared, "deviations", n_items=n_items, largest=largest, covers=covers
        )
        return (request,)

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        weights = quantise_weights(self.weigh(cohort, board))
        if board.version == 0:
            return Contribution(
                n_items=cohort.n_items,
                indptr=cohort.indptr,
                items=cohort.items,
                weights=weights,
                totals=capped_mean(cohort, self.settings.shared),
            )
        deviations = cohort.ratings - np.float32(board.arrays["mean"][0])
        return Contribution(
            n_items=cohort.n_items,
            indptr=cohort.indptr,
            items=cohort.items,
            weights=weights,
            vectors=clip_vectors(np.ones((cohort.n_users, 1), dtype=np.float32), 1.0),
            responses=clip_responses(deviations, self.settings.deviation_bound),
        )

    def weigh(self, cohort: Cohort, board: Board) -> FloatArray:
        """e_ij / sqrt(count_cap), so that a user's squares sum to at most 1; float64, shape (n_ratings,)."""
        return capped_counts(cohort, self.settings.shared.count_cap)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        n_items = board.catalogue.n_items
        if board.version == 0:
            return board.successor(
                mean=np.array([released_mean(released, self.settings.shared)]),
                item_counts=np.maximum(released.array("counts")[:, 0], 1.0),
                item_weights=np.ones(n_items),
                learnt=np.ones(n_items, dtype=np.uint8),
            )
        sums = released.array("deviations")[:, 0]
        biases = sums / (board.arrays["item_counts"] + self.settings.damping)
        return board.successor(item_biases=biases.astype(np.float32))

    def fit_local(self, cohort: Cohort, board: Board) -> Float32Array:
        """How far above the board each user rates, damped; float32, shape (n_users, 1). Private."""
        left = cohort.ratings.astype(np.float64) - _base(board)[cohort.items]
        sums = np.bincount(cohort.user_of_entry(), weights=left, minlength=cohort.n_users)
        own: Float32Array = (sums / (cohort.counts + self.settings.own_damping)).astype(np.float32)[:, None]
        return own

    def predict(self, local: Float32Array, board: Board, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings on the public range; float64, shape (n_pairs,)."""
        scores, shared = _base(board)[items] + local[users, 0], self.settings.shared
        ratings: FloatArray = np.clip(scores, shared.rating_low, shared.rating_high)
        return ratings

    def ranking_factors(self, local: Float32Array, board: Board) -> tuple[Float32Array, Float32Array]:
        """1 for each user and b_i for each item: everybody is recommended the same, but what she has rated."""
        return np.ones_like(local), np.asarray(board.arrays["item_biases"])[:, None]


def _base(board: Board) -> FloatArray:
    """What the board alone predicts: float64, shape (n_items,)."""
    mean = float(board.arrays["mean"][0]) if "mean" in board.arrays else 0.0
    return mean + np.asarray(board.arrays["item_biases"], dtype=np.float64)


def _array_rules(board: Board, settings: DampedMeansConfig) -> tuple[ArrayRule, ...]:
    """What a device requires of the arrays before it computes anything."""
    biases = ArrayRule(
        name="item_biases", dtype=np.dtype(np.float32), shape=(board.catalogue.n_items,), low=-1e6, high=1e6
    )
    return (biases,) if board.version == 0 else (biases, *prepared(board), *mean_rating(settings.shared))


def _regression(settings: DampedMeansConfig, own: Cohort, board: Board) -> Regression:
    """Her own model is a ridge regression on a constant, so that ``fedboard explain`` can take it apart."""
    base = _base(board)
    return Regression(vectors=np.ones((base.size, 1)), base=base, ridge=settings.own_damping, gram=0.0)


def _task(settings: DampedMeansConfig, *, backend: str, features: FloatArray | None) -> DampedMeans:
    return DampedMeans(settings, backend=backend)


ALGORITHM = Algorithm(
    name=DampedMeans.NAME,
    feedback=frozenset({Feedback.EXPLICIT}),
    settings=DampedMeansConfig,
    shares=DampedMeansShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=_array_rules,
    regression=_regression,
)
"""What commands, servers and devices know of it."""
