"""Liu et al.'s bound on what one user adds to the loss: trimming to tau ratings, and a weight for each user.

F = sum_j w_j sum_i (y_ij - <u_i, v_j>)^2. With at most tau ratings a user, predictions within kappa of the rating
range and w_j = min(rho, B / (N_j range^2)), where range = r_max - r_min + kappa and B = tau range^2, no user adds
more than B. N_j is the number of ratings that she keeps.

Reference: Liu, Wang and Smola (2015), sec. 3 and 6.6.
"""

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.per_user.weights import WeightScheme, entry_weights


def kept_ratings(cohort: Cohort, *, most: int, seed: int) -> BoolArray:
    """Mark at most ``most`` ratings of each user, drawn at random; bool, shape (n_ratings,). Private.

    Args:
        cohort: private.
        most: tau >= 1. Public.
        seed: of the draw, which depends on it, the user's key and the item alone.
    """
    equal = np.ones(cohort.n_items)
    return entry_weights(WeightScheme.UNIFORM, cohort, equal, items_per_user=most, seed=seed) > 0


def trimmed(cohort: Cohort, *, most: int, seed: int) -> Cohort:
    """The same users with the ratings that ``kept_ratings`` marks."""
    return cohort.where(kept_ratings(cohort, most=most, seed=seed))


def user_weights(
    counts: IntArray, *, most: int, largest: float, budget_shares: FloatArray | None = None
) -> FloatArray:
    """w_j = min(rho, tau s_j / N_j): the user's part of F is at most s_j B.

    Args:
        counts: N_j, int64, shape (n_users,), each at most ``most``. Private.
        most: tau. Public.
        largest: rho > 0. Public.
        budget_shares: s_j = B_j / B in [0, 1], float64, shape (n_users,): users who want a smaller epsilon of
            their own; None for 1.

    Returns:
        float64, shape (n_users,). Private.

    Raises:
        InputError: an argument is out of its range.
    """
    if not 0 < largest < np.inf or most < 1:
        raise InputError(f"the largest weight must be finite and > 0 and tau >= 1, got {largest} and {most}")
    if counts.size and counts.max() > most:
        raise InputError(f"a user has more than {most} ratings: trim first")
    shares = np.ones(counts.size) if budget_shares is None else budget_shares
    if shares.shape != counts.shape or not ((shares >= 0) & (shares <= 1)).all():
        raise InputError("budget_shares must hold one number in [0, 1] per user")
    weights: FloatArray = np.minimum(largest, most * shares / np.maximum(counts, 1))
    return weights
