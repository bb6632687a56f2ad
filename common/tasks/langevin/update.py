"""From one board of the Langevin task to the next. Post-processing of what was released."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.per_user.weights import WeightScheme, item_weights
from fedboard.common.task import ReleasedSums
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.shared.preparation import released_mean
from fedboard.common.tasks.shared.releases import real_stddev

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
