"""Private item biases, and on each device a bias of her own: the floor of everything for ratings.

* moments: users, their mean rating and mean square, so that centre and scale of ratings are released, not assumed;
* first round: ``T_i = sum_j w_ij r_ij`` and ``c_i = sum_j w_ij`` with r = y - mean, w_ij = f_j / sqrt(n_j), where
  f_j = min(1, C / rms(r_j)) bounds the whole row: a user of 2 and one of 2 000 ratings weigh the same, with no cap;
* second round (``bias-private``): the same with the effects found and each user's own bias taken out on her device.

b_i is the posterior mean given T_i, c_i and their known noise (``shared/levels.py``); a person's own
model is one number, ``own = sum_i (y - mean - b_i) / (n + user_ridge)``.

What leads from one board to the next is post-processing: it reads releases, never a rating.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from fedboard.common.algorithms.shared import array_rules as rules
from fedboard.common.algorithms.shared import levels, preparation
from fedboard.common.algorithms.shared.algorithm import Algorithm, TaskOfSettings
from fedboard.common.algorithms.shared.preparation import moments_share
from fedboard.common.algorithms.shared.ratings_config import (
    Feedback,
    RatingsConfig,
    RatingSettings,
    ReleaseShares,
)
from fedboard.common.algorithms.shared.regression import Regression
from fedboard.common.algorithms.shared.sums import real_stddev
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board, Catalogue
from fedboard.common.checks import Positive, Range, Share, require
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.task import ReleasedSums

_LEAST_MOMENTS = 0.005
Clip: TypeAlias = Annotated[float, Range("in [0.05, 1]", lambda x: 0.05 <= x <= 1.0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasConfig(RatingSettings):
    """Everything a device must know to take part. Every field is public by definition."""

    shared: RatingsConfig = field(default_factory=RatingsConfig)
    """What every algorithm on ratings has: their range, what neighbouring means, the noise."""
    rounds: int = 2
    """Rounds that sum over items: 1 for item means, a second with each user's own bias taken out for item biases;
    none for a constant and her own bias."""
    user_ridge: Positive = 5.0
    """Strength of the device's ridge on her own bias, in ratings. Everywhere between 3 and 10 is within 0.2 %."""
    moments_share: Share | None = None
    """Share of mu^2 for the three numbers about all ratings; None for what their accuracy needs."""
    first_clip: Clip = 0.8
    """Bound on a user's whole part in the first round, in released deviations of a rating."""
    second_clip: Clip = 0.6
    """Likewise in the second, where residuals are smaller."""

    def __post_init__(self) -> None:
        """Check every public range; a server need not be honest.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        feedback = self.shared.feedback
        require(feedback is Feedback.EXPLICIT, "feedback", "explicit: presence has no mean", feedback)
        require(self.rounds in (0, 1, 2), "rounds", "0, 1 or 2", self.rounds)
        super(BiasConfig, self).__post_init__()


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasShares(ReleaseShares):
    """How the run's mu^2 (of the Gaussian guarantee) is shared among the releases. Public."""

    counts: Share = 0.28
    """The weighted counts, of what the moments leave. A count's noise moves an effect of about half a star as much
    as noise of that half in its sum: (1 : 2.5) is the best ratio for it."""
    second: Share = 0.6
    """The second round, of what the counts leave."""


def complete(settings: BiasConfig, *, given: Collection[str], mu: float) -> BiasConfig:
    """The settings with the share of the moments that the budget of the run asks for."""
    if "moments_share" in given:
        return settings
    return replace(settings, moments_share=moments_share(mu))


def shares_by_release(settings: BiasConfig, shares: BiasShares) -> dict[str, float]:
    """Share of mu^2 of each release of a complete run, in its order; sums to 1."""
    if settings.rounds == 0:
        return {"moments": 1.0}
    moments = _LEAST_MOMENTS if settings.moments_share is None else settings.moments_share
    left = 1.0 - moments
    sums = left * (1.0 - shares.counts)
    found = {"moments": moments, "counts": left * shares.counts}
    if settings.rounds == 1:
        return found | {"first": sums}
    return found | {"first": sums * (1.0 - shares.second), "second": sums * shares.second}


def after_moments(board: Board, released: ReleasedSums, request: Request, settings: BiasConfig) -> Board:
    """Mean and deviation of ratings, and the users."""
    level = preparation.released_level(released, request, settings.shared)
    return board.successor(
        mean=np.array([level.mean]), spread=np.array([level.spread]), population=np.array([level.users])
    )


def after_first(board: Board, released: ReleasedSums, requests: tuple[Request, Request]) -> Board:
    """Weighted counts, and the effects that the first sums speak for."""
    asked, summed = requests
    counts = levels.likely_counts(
        released.array(asked.name)[:, 0], stddev=real_stddev(asked) * released.noise_ratio
    )
    sums = levels.released_sums(released, summed, spread=preparation.spread_of(board))
    # Were all to rate equally many, a rating would weigh this in every c_i.
    each = _mean_weight(board, counts.mean)
    return board.successor(
        item_biases=_effects(board, sums, counts).astype(np.float32),
        item_counts=np.maximum(counts.mean / each, 1.0),
        weighted_counts=counts.mean,
        count_variances=counts.variance,
        first_sums=sums.values,
    )


def after_second(board: Board, released: ReleasedSums, request: Request, first: Request) -> Board:
    """Both sums as one, the first trusted as far as it agrees with the second beyond their noise.

    The second was asked with the effects of the first taken out; put back, it is the sum that the first would have
    been without the users' own biases in it.
    """
    if (
        "weighted_counts" not in board.arrays
    ):  # the first round was lost, and without counts a sum means nothing
        return board.successor()
    counts = levels.LikelyCounts(
        mean=np.asarray(board.arrays["weighted_counts"]), variance=np.asarray(board.arrays["count_variances"])
    )
    taken_out = np.asarray(board.arrays["item_biases"], dtype=np.float64)
    again = levels.released_sums(released, request, spread=preparation.spread_of(board))
    second = levels.NoisySums(
        values=again.values + counts.mean * taken_out,
        variances=again.variances + counts.variance * taken_out**2,
    )
    before = levels.NoisySums(
        values=np.asarray(board.arrays["first_sums"]),
        variances=np.full(
            second.values.size,
            (preparation.spread_of(board) * real_stddev(first) * released.noise_ratio) ** 2,
        ),
    )
    apart = levels.confounding(before, second, counts.mean, spread=preparation.spread_of(board))
    trust = 1.0 / (before.variances + apart * counts.mean**2)
    share = trust / (trust + 1.0 / second.variances)
    both = levels.NoisySums(
        values=share * before.values + (1.0 - share) * second.values,
        variances=share / trust,
    )
    doubtful = levels.LikelyCounts(mean=counts.mean, variance=counts.variance * share)
    return board.successor(item_biases=_effects(board, both, doubtful).astype(np.float32))


def _effects(board: Board, sums: levels.NoisySums, counts: levels.LikelyCounts) -> FloatArray:
    return levels.posterior_effects(
        sums, counts, spread=preparation.spread_of(board), mean_weight=_mean_weight(board, counts.mean)
    )


def _mean_weight(board: Board, counts: FloatArray) -> float:
    """What a rating weighs on average: a user's squared weights add to 1. In (0, 1]; 1 where users are unknown."""
    users = float(board.arrays["population"][0]) if "population" in board.arrays else math.inf
    return min(users / max(float(counts.sum()), 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class BiasPrivate(TaskOfSettings):
    """The task. Pure: it holds its public configuration and the choice of kernels, nothing else."""

    NAME: ClassVar[str] = "bias-private"
    settings: BiasConfig

    def first_board(self, catalogue: Catalogue) -> Board:
        """No item is better than another, ratings are what they usually are; holds no data."""
        n_items, shared = catalogue.n_items, self.settings.shared
        return self.begun(
            catalogue.without_features,
            mean=np.array([shared.centre]),
            spread=np.array([preparation.USUAL_SPREAD * shared.half_range]),
            item_biases=np.zeros(n_items, dtype=np.float32),
            item_counts=np.ones(n_items),
            item_weights=np.ones(n_items),
            learnt=np.ones(n_items, dtype=np.uint8),
        )

    def asked(self, version: int, *, n_items: int, board: Board | None = None) -> tuple[Request, ...]:
        """Moments, then one or two rounds over items."""
        settings = self.settings
        if version == 0:
            return (preparation.moments_request(settings.shared),)
        if version > settings.rounds:
            return ()
        name, clip = ("first", settings.first_clip) if version == 1 else ("second", settings.second_clip)
        sums = levels.even_sums_request(settings.shared, name, n_items=n_items, clip_norm=clip)
        return (
            (levels.even_counts_request(settings.shared, n_items=n_items), sums) if version == 1 else (sums,)
        )

    def contribute(self, cohort: Cohort, board: Board, requests: tuple[Request, ...]) -> Contribution:
        """Integers within every declared bound; each row depends on that user's row and the board alone."""
        settings = self.settings
        if board.version == 0:
            return preparation.answer(
                cohort,
                totals={"moments": preparation.moments_of(cohort, settings.shared)},
            )
        clip = settings.first_clip if board.version == 1 else settings.second_clip
        left = self._left(cohort, board)
        return levels.even_rows(cohort, left, spread=preparation.spread_of(board), clip_norm=clip)

    def _left(self, cohort: Cohort, board: Board) -> FloatArray:
        """What the board leaves of each rating, in the second round without the user's own bias. Private."""
        left = preparation.in_range(cohort, self.settings.shared) - base_of(board)[cohort.items]
        if board.version > 1:
            left -= self._own(cohort, left)[cohort.user_of_entry()]
        return left

    def _own(self, cohort: Cohort, left: FloatArray) -> FloatArray:
        sums = np.bincount(cohort.user_of_entry(), weights=left, minlength=cohort.n_users)
        return sums / (cohort.counts + self.settings.user_ridge)

    def update(self, board: Board, released: ReleasedSums) -> Board:
        """The next board; post-processing of the noised sums and of what is already public."""
        asked = self.requests(board)
        if board.version == 0:
            return after_moments(board, released, asked[0], self.settings)
        if board.version == 1:
            return after_first(board, released, (asked[0], asked[1]))
        first = self.asked(1, n_items=1)[1]
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
    return float(board.arrays["mean"][0]) + np.asarray(board.arrays["item_biases"], dtype=np.float64)


def _array_rules(board: Board, settings: BiasConfig) -> tuple[rules.ArrayRule, ...]:
    """What a device requires of the arrays before it computes anything."""
    biases = rules.ArrayRule(name="item_biases", dtype=np.dtype(np.float32), shape=(board.catalogue.n_items,))
    spread = rules.number("spread", 0.0, settings.shared.half_range)
    return (biases, *rules.prepared(board), *rules.mean_rating(settings.shared), spread)


def _regression(settings: BiasConfig, own: Cohort, board: Board) -> Regression:
    """Her own model is a ridge regression on a constant."""
    base = base_of(board)
    return Regression(vectors=np.ones((base.size, 1)), base=base, ridge=settings.user_ridge, gram=0.0)


ALGORITHM = Algorithm(
    name=BiasPrivate.NAME,
    variants={
        "bias-private": {"rounds": 2},
        "item-mean-private": {"rounds": 1},
        "mean-private": {"rounds": 0},
    },
    feedback=frozenset({Feedback.EXPLICIT}),
    settings=BiasConfig,
    shares=BiasShares,
    shares_by_release=shares_by_release,
    task=BiasPrivate.made,
    array_rules=_array_rules,
    folder=files(__package__),
    regression=_regression,
    complete=complete,
    floors=("item-mean-private", "bias-private"),
)
"""One task with two, one or no rounds over items."""
