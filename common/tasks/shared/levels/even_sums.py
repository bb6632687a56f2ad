"""Private sums per item to which every user gives at most the same norm, however many items she has.

A user's part is ``w_ij r_ij`` with ``w_ij = f_j / sqrt(n_j)``, ``f_j = min(1, C / rms(r_j))``: its norm is at most
C, and the factor enters the counts too, so that it biases no mean.
"""

import math

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.per_user.clipping import (
    RESPONSE_BOUND,
    VECTOR_BOUND,
    WEIGHT_ONE,
    clip_responses,
    clip_vectors,
    quantise_weights,
)
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.shared.levels.even_counts import even_weights
from fedboard.common.tasks.shared.levels.noisy_effects import NoisySums
from fedboard.common.tasks.shared.ratings_config import RatingsConfig
from fedboard.common.tasks.shared.releases import calibrated_request, real_stddev

_LARGEST = 8.0  # bound on one residual, in deviations; larger ones are clipped
_INSIDE = 1.0 - 1e-6  # keeps a bounded row inside its bound whatever floating point does


def even_sums_request(shared: RatingsConfig, name: str, *, n_items: int, clip_norm: float) -> Request:
    """The whole part of a user of norm at most ``clip_norm``.

    In units of the released deviation of ratings, so that what is booked is the same whatever that is.
    """
    step = _LARGEST / (WEIGHT_ONE * RESPONSE_BOUND * VECTOR_BOUND)
    return calibrated_request(
        shared,
        SumSource.ITEM_LINEAR,
        name,
        rows=n_items,
        grid_step=step,
        l2_bound=math.floor(clip_norm / step),
        same_sign=False,
        covers="sum of w r per item, r what the board leaves of a rating in units of their released deviation, "
        "each user's part bounded as a whole",
    )


def even_rows(cohort: Cohort, left: FloatArray, *, spread: float, clip_norm: float) -> Contribution:
    """The integers of counts and sums; each row depends on that user's row alone.

    Args:
        cohort: the users. Private.
        left: r, what the board leaves of each rating, stars; float64, shape (n_ratings,). Private.
        spread: released deviation of ratings, stars. Public.
        clip_norm: C > 0, in units of it. Public.
    """
    rows = cohort.user_of_entry()
    bounded = np.clip(left / spread, -_LARGEST, _LARGEST)
    weights = even_weights(cohort)
    squares = np.bincount(rows, weights=np.square(weights * bounded), minlength=cohort.n_users)
    factors = np.minimum(1.0, _INSIDE * clip_norm / np.sqrt(np.maximum(squares, 1e-300)))
    return Contribution(
        n_items=cohort.n_items,
        indptr=cohort.indptr,
        items=cohort.items,
        weights=quantise_weights(weights * factors[rows]),
        vectors=clip_vectors(np.ones((cohort.n_users, 1), dtype=np.float32), 1.0),
        responses=clip_responses(bounded, _LARGEST),
    )


def released_sums(released: ReleasedSums, request: Request, *, spread: float) -> NoisySums:
    """The sums with the noise that is in them, stars."""
    values = spread * released.array(request.name)[:, 0]
    noise = (spread * real_stddev(request) * released.noise_ratio) ** 2
    return NoisySums(values=values, variances=np.full(values.size, noise))
