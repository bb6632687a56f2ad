"""The item step of the Langevin task, and the weights and trimming of Liu et al.: post-processing of releases.

Liu et al.'s bound on what one user adds to the loss: trimming to tau ratings, and a weight for each user.

F = sum_j w_j sum_i (y_ij - <u_i, v_j>)^2. With at most tau ratings a user, predictions within kappa of the rating
range and w_j = min(rho, B / (N_j range^2)), where range = r_max - r_min + kappa and B = tau range^2, no user adds
more than B. N_j is the number of ratings that she keeps.

Reference: Liu, Wang and Smola (2015), sec. 3 and 6.6.

From one board of the Langevin task to the next. Post-processing of what was released.
"""

import numpy as np

from fedboard.common.arrays import BoolArray, Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.per_user.weights import WeightScheme, entry_weights, item_weights
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.shared.preparation import released_mean
from fedboard.common.tasks.shared.releases import real_stddev


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


_SHARE_OF_BOUND = 1.0 - 1e-9


def after_preparation(board: Board, released: ReleasedSums, settings: LangevinConfig) -> Board:
    """Mean, counts, the preconditioner's root a_i, and the bound of a contribution."""
    counts = np.maximum(released.array("counts")[:, 0], 1.0)
    omega = item_weights(WeightScheme.ADAPTIVE, counts, exponent=settings.weight_exponent)
    # The largest possible norm of a user's weights is 1, as the grid wants it.
    roots = omega * (_SHARE_OF_BOUND / (omega.max() * settings.largest_weights_norm))
    average = float(np.sqrt(np.sum(counts * roots**2) / np.sum(counts)))
    largest = settings.vector_bound * settings.model.residual_bound
    clip_norm = settings.clip_norm * float(np.sqrt(settings.most_ratings)) * average
    return board.successor(
        mean=np.array([released_mean(released, settings.shared)]),
        item_counts=counts,
        item_weights=roots,
        learnt=np.ones(counts.size, dtype=np.uint8),
        clip_norm=np.array([min(clip_norm, largest)]),
    )


def after_step(board: Board, released: ReleasedSums, request: Request, settings: LangevinConfig) -> Board:
    """One Langevin step; at the end the mean of the last states, where one is asked for."""
    roots = np.asarray(board.arrays["item_weights"])
    length = step_length(board, request, settings)
    state = _coordinates(board, settings)
    gradient = settings.likelihood * roots[:, None] * released.array(request.name)
    moved = state + length * (gradient - 0.5 * settings.precision * (roots**2)[:, None] * state)
    arrays = _item_arrays(moved, settings)
    averaged = settings.averaged_steps - (settings.steps - board.version)
    if settings.averaged_steps > 1 and averaged >= 1:
        before = np.asarray(board.arrays["mean_state"]) if averaged > 1 else np.zeros_like(moved)
        mean: FloatArray = before + (moved - before) / averaged
        arrays["mean_state"] = mean.astype(np.float32)
        if board.version == settings.steps:
            arrays |= _item_arrays(mean, settings)
    return board.successor(**arrays, temperature=np.array([_temperature(length, request, settings)]))


def step_length(board: Board, request: Request, settings: LangevinConfig) -> float:
    """Length h = temperature / (s sigma)^2, at most ``step_limit`` over the largest curvature; public.

    Largest curvature of the preconditioned density: a_i^2 times s times item i's private count, each of its ratings
    with the weight and the ``|x_j|^2`` of a user at the bounds, shared among the coordinates, plus the prior.
    """
    roots, counts = np.asarray(board.arrays["item_weights"]), np.asarray(board.arrays["item_counts"])
    of_rating = settings.likelihood * settings.vector_bound**2 / settings.width
    curvature = float(np.max(roots**2 * (of_rating * counts + 0.5 * settings.precision)))
    wanted = settings.temperature / (settings.likelihood * real_stddev(request)) ** 2
    return min(wanted, settings.step_limit / curvature)


def _temperature(length: float, request: Request, settings: LangevinConfig) -> float:
    """Variance of the noise in a step over the variance of Langevin dynamics at temperature 1."""
    return length * (settings.likelihood * real_stddev(request)) ** 2


def _coordinates(board: Board, settings: LangevinConfig) -> FloatArray:
    biases = np.asarray(board.arrays["item_biases"], dtype=np.float64) / settings.bias_scale
    return np.column_stack([biases, board.arrays["item_factors"]])


def _item_arrays(coordinates: FloatArray, settings: LangevinConfig) -> dict[str, Float32Array]:
    return {
        "item_biases": (coordinates[:, 0] * settings.bias_scale).astype(np.float32),
        "item_factors": coordinates[:, 1:].astype(np.float32),
    }
