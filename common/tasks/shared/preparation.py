"""The preparation round that rating tasks share: the private mean and the private item counts."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.errors import PrivacyError
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.shared.ratings_config import RatingsConfig

_STEPS_PER_STAR = 1 << 16

MEAN_BOUND = 1 << 20
"""Largest contribution to either sum of the mean, grid units."""


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
