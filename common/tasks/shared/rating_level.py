"""Number of users, mean and deviation of ratings from one release, without a cap: where tasks on ratings start."""

import math
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.shared.ratings_config import RatingsConfig
from fedboard.common.tasks.shared.releases import calibrated_request, real_stddev

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
        same_sign=False,
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
