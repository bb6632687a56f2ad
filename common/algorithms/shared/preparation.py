"""The preparation round that rating tasks share: its requests, what users give, and what follows from its releases.

The private mean and the private item counts; or number of users, mean and deviation of ratings from one release,
without a cap.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.algorithms.shared.sums import (
    calibrated_request,
    item_counts,
    real_stddev,
    user_totals,
)
from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.task import ReleasedSums

_STEPS_PER_STAR = 1 << 16

MEAN_BOUND = 1 << 20
"""Largest contribution to either sum of the mean, grid units."""


def answer(cohort: Cohort, **parts: Any) -> Contribution:
    """The users' rows over their own items.

    Args:
        cohort: private.
        parts: weights, vectors, responses or totals of a ``Contribution``. Private.
    """
    return Contribution(n_items=cohort.n_items, indptr=cohort.indptr, items=cohort.items, **parts)


@dataclass(frozen=True, slots=True)
class Passed:
    """An ``ItemBlockSolver`` that hands a release on as it is, so that the runtime's workers do the summing."""

    name: str

    def __call__(self, start: int, blocks: Mapping[str, FloatArray]) -> Float32Array:
        """Rows of the release from ``start`` on."""
        return blocks[self.name].astype(np.float32)


def capped_mean(cohort: Cohort, shared: RatingsConfig) -> dict[str, IntArray]:
    """Each user's part in the private mean, on the grid.

    She gives (w S, w N): S the sum of her ratings minus the centre of the public range, N their number,
    w = min(1, mean_cap / N). So |w S| <= mean_cap half_range and w N <= mean_cap.

    Returns:
        ``mean/sum`` and ``mean/number``: int64, shape (n_users, 1), magnitude <= ``MEAN_BOUND``. Private.

    Reference: smooth bounding, Epasto et al. (2020).
    """
    number = cohort.counts.astype(np.float64)
    weight = np.minimum(1.0, shared.mean_cap / np.maximum(number, 1.0))
    if not np.isfinite(cohort.ratings).all():
        raise PrivacyError("ratings must be finite numbers; NaN or infinity was refused")
    steps = cohort.ratings.astype(np.float64)
    np.clip(steps, shared.rating_low, shared.rating_high, out=steps)
    steps -= shared.centre
    steps *= _STEPS_PER_STAR
    # Whole numbers, so that a user's sum does not depend on who is summed before her.
    np.rint(steps, out=steps)
    running = np.zeros(cohort.n_ratings + 1, dtype=np.int64)
    np.cumsum(steps.astype(np.int64), out=running[1:])
    total = (running[cohort.indptr[1:]] - running[cohort.indptr[:-1]]) / _STEPS_PER_STAR
    return {
        "mean/sum": _on_grid(weight * total / (shared.mean_cap * shared.half_range)),
        "mean/number": _on_grid(weight * number / shared.mean_cap),
    }


def capped_counts(cohort: Cohort, count_cap: int) -> FloatArray:
    """Each user's weight on each of her items for the private counts, in units of sqrt(count_cap).

    e_ij = min(1, sqrt(count_cap / n_j)), so that the squares of a user's row sum to at most count_cap:
    nobody is sampled away.

    Returns:
        e_ij / sqrt(count_cap): float64, shape (n_ratings,); squares of a row sum to <= 1. Private.
    """
    own = np.maximum(cohort.counts, 1).astype(np.float64)
    per_user = np.minimum(1.0, np.sqrt(count_cap / own)) / np.sqrt(count_cap)
    return np.repeat(per_user, cohort.counts)


def released_mean(released: ReleasedSums, shared: RatingsConfig) -> float:
    """The private mean, clamped to the public range: post-processing of both its sums."""
    number = max(float(released.array("mean/number")[0, 0]), 1.0)
    mean = shared.centre + float(released.array("mean/sum")[0, 0]) / number
    return min(max(mean, shared.rating_low), shared.rating_high)


def share_among_learnt(cohort: Cohort, board: Board, share: Callable[[Cohort], FloatArray]) -> FloatArray:
    """Each user's weights, her whole budget on the items that are learnt; float64, shape (n_ratings,). Private.

    Args:
        cohort: the users. Private.
        board: says which items are learnt. Public.
        share: the weights of a cohort that has none but such items.
    """
    learnt = np.asarray(board.arrays["learnt"]) != 0
    if learnt.all():
        return share(cohort)
    kept = learnt[cohort.items]
    weights = np.zeros(cohort.n_ratings)
    weights[kept] = share(cohort.where(kept))
    return weights


def head_of(counts: FloatArray, fraction: float) -> NDArray[np.uint8]:
    """Mark the items with the largest private counts: post-processing of a release."""
    keep = np.zeros(counts.size, dtype=np.uint8)
    keep[np.argsort(-counts, kind="stable")[: int(np.ceil(fraction * counts.size))]] = 1
    return keep


def _on_grid(fraction_of_bound: FloatArray) -> IntArray:
    steps = np.trunc(fraction_of_bound * MEAN_BOUND).astype(np.int64)
    return np.clip(steps, -MEAN_BOUND, MEAN_BOUND)[:, None]


ONE_USER = 1 << 12
"""A user in the number of users, grid units; fine, so that a personal privacy level can shrink it."""


def mean_requests(shared: RatingsConfig) -> tuple[Request, Request]:
    """Both sums of the private mean."""
    total = user_totals(
        shared,
        "mean/sum",
        bound=shared.mean_cap * shared.half_range,
        steps=MEAN_BOUND,
        covers="sum of ratings minus the centre of the public range, smoothly bounded",
    )
    number = user_totals(
        shared,
        "mean/number",
        bound=shared.mean_cap,
        steps=MEAN_BOUND,
        same_sign=True,
        covers="number of ratings, smoothly bounded",
    )
    return (total, number)


def counts_request(shared: RatingsConfig, *, n_items: int) -> Request:
    """The private item counts."""
    covers = "users per item, each user's row scaled to at most sqrt(count_cap)"
    return item_counts(shared, "counts", n_items=n_items, unit=math.sqrt(shared.count_cap), covers=covers)


def users_request(shared: RatingsConfig) -> Request:
    """The private number of users."""
    return user_totals(shared, "users", steps=ONE_USER, same_sign=True, covers="number of users")


USUAL_SPREAD = math.sqrt(0.2)
"""Deviation of a rating, in half widths of the range, where none was released yet; so it is on most scales."""
_DOUBT = 0.1
"""How far its square may be from the usual, before anything was released."""
_MEAN_DOUBT = 0.5
"""Likewise of the mean from the centre of the range."""
LEAST_SPREAD = 0.1
"""A released deviation is at least so large, in the same unit."""
MOMENT_ONE = 1 << 20
"""1 in the moments, grid units."""
_MOMENTS = 3


def moments_request(shared: RatingsConfig) -> Request:
    """Number of users, sum of their mean ratings, sum of their mean squares.

    Ratings are counted from the centre of the range in units of half its width, so that each of a user's three
    numbers is within [-1, 1], however many ratings she has: no cap.
    """
    return calibrated_request(
        shared,
        SumSource.TOTAL,
        "moments",
        width=_MOMENTS,
        grid_step=1.0 / MOMENT_ONE,
        l2_bound=math.ceil(math.sqrt(_MOMENTS) * MOMENT_ONE),
        covers="users, and of each her mean rating and mean squared rating around the centre of the range",
    )


def moments_of(cohort: Cohort, shared: RatingsConfig) -> IntArray:
    """Each user's part in the moments; int64, shape (n_users, 3). Who rated nothing gives zeros. Private.

    Raises:
        PrivacyError: a rating is not finite.
    """
    apart = (in_range(cohort, shared) - shared.centre) / shared.half_range
    rows, n_users = cohort.user_of_entry(), cohort.n_users
    own = np.maximum(cohort.counts, 1)
    means = np.bincount(rows, weights=apart, minlength=n_users) / own
    squares = np.bincount(rows, weights=apart**2, minlength=n_users) / own
    parts = np.stack([(cohort.counts > 0).astype(np.float64), means, squares], axis=1)
    return np.clip(np.trunc(parts * MOMENT_ONE), -MOMENT_ONE, MOMENT_ONE).astype(np.int64)


USERS_ENOUGH = 1000
"""Users whose moments are to be known well enough."""
_ENOUGH = 0.0012
"""The three numbers get this much of mu^2 in absolute terms: the mean of ``USERS_ENOUGH`` users is then known to
1/20 of the range's half width, whatever the budget of the run."""
_LEAST_SHARE, _MOST_SHARE = 0.005, 0.5


def moments_share(mu: float) -> float:
    """Share of mu^2 that the moments need for their accuracy.

    Args:
        mu: of the whole run, in Gaussian differential privacy.
    """
    return min(max(_ENOUGH / mu**2, _LEAST_SHARE), _MOST_SHARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingLevel:
    """What the moments say of all ratings. Public."""

    mean: float
    """On the scale of the ratings."""
    spread: float
    """Deviation of a rating, stars; > 0."""
    users: float
    """Number of users who rated anything; >= 1."""


def released_level(released: ReleasedSums, request: Request, shared: RatingsConfig) -> RatingLevel:
    """Mean and deviation of ratings, each pulled to the usual as far as its noise demands, and the users."""
    users, means, squares = released.array(request.name)[0]
    noise = real_stddev(request) * released.noise_ratio
    number = max(float(users), noise, 1.0)
    doubt = (noise / number) ** 2
    mean = float(np.clip(means / number, -1.0, 1.0)) * _MEAN_DOUBT**2 / (_MEAN_DOUBT**2 + doubt)
    usual = USUAL_SPREAD**2
    variance = float(np.clip(squares / number, 0.0, 1.0)) - mean**2
    variance = usual + (variance - usual) * _DOUBT**2 / (_DOUBT**2 + 2.0 * doubt)
    spread = min(max(math.sqrt(max(variance, 0.0)), LEAST_SPREAD), 1.0)
    return RatingLevel(
        mean=shared.centre + shared.half_range * mean, spread=shared.half_range * spread, users=number
    )


def spread_of(board: Board) -> float:
    """Deviation of a rating in stars: released, or the usual where that round is to come or was lost."""
    return float(board.arrays["spread"][0])


def in_range(cohort: Cohort, shared: RatingsConfig) -> FloatArray:
    """Ratings clipped to the public range; float64, shape (n_ratings,). Private.

    Raises:
        PrivacyError: a rating is not finite.
    """
    if not np.isfinite(cohort.ratings).all():
        raise PrivacyError("ratings must be finite numbers; NaN or infinity was refused")
    return np.clip(cohort.ratings.astype(np.float64), shared.rating_low, shared.rating_high)
