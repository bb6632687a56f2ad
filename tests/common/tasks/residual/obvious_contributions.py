"""What users give to residual alternating minimisation, with loops: what the tests hold the task against."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.local import ItemModel, fit_users
from fedboard.common.tasks.residual.task import Residual

MARGIN = 1.0 - 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One user's part in a round, in real units but on the public grid."""

    items: np.ndarray
    weights: np.ndarray
    residuals: np.ndarray
    vector: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a round adds up, with or without noise."""

    linear: np.ndarray
    moment: np.ndarray
    curvature: np.ndarray
    weighted_counts: np.ndarray


def on_grid(values: np.ndarray, bound: float, units: int) -> np.ndarray:
    return np.trunc(values / bound * units) * bound / units


def own_model(settings: ResidualConfig, own: Cohort, board: Board, factors: np.ndarray) -> np.ndarray:
    """Her bias and her embedding, by the normal equations; returned as the task rounds it, since one unit of the
    grid more or less would hide small mistakes elsewhere.
    """
    u = factors[own.items].astype(np.float64)
    growth, found = (
        max(own.n_ratings, 1) ** settings.user_ridge_exponent,
        np.zeros(1 + settings.rank),
    )
    if settings.has_biases:
        columns = np.column_stack([np.ones(own.n_ratings), u])
        ridge = np.diag([settings.user_bias_ridge, *[settings.user_ridge] * settings.rank]) * growth
        found = np.linalg.solve(columns.T @ columns + ridge, columns.T @ unexplained(own, board))
    else:
        everything = factors.astype(np.float64)
        left = u.T @ u + settings.unobserved_weight * everything.T @ everything
        left += settings.user_ridge * growth * np.eye(settings.rank)
        found[1:] = np.linalg.solve(left, u.sum(axis=0))
    model = ItemModel(
        mean=float(board.arrays["mean"][0]), biases=board.arrays["item_biases"], factors=factors
    )
    fitted = fit_users(own, model, settings, backend="numpy")[0]
    np.testing.assert_allclose(fitted, found, rtol=1e-5, atol=1e-5)
    return fitted


def unexplained(own: Cohort, board: Board) -> np.ndarray:
    """What mean and item biases leave of her ratings."""
    return own.ratings - np.float32(board.arrays["mean"][0]) - board.arrays["item_biases"][own.items]


def row_of(task: Residual, own: Cohort, board: Board, *, t: int, clip_norm: float) -> Row:
    """One user's part in alternation t; t = 0 is the bias round."""
    s = task.settings
    factors = board.arrays["item_factors"]
    model = own_model(s, own, board, factors)
    left = (unexplained(own, board) - model[0]) - factors[own.items].astype(np.float64) @ model[1:]
    x, bound = np.full(int(s.has_biases), s.bias_scale), s.bias_scale
    if t == 1:
        along = own_model(s, own, board, sketch_of(task, board))[1:]
        along = along / max(np.linalg.norm(along.astype(np.float64)), 1e-12)
        x, bound = np.append(x, along.astype(np.float32)), s.vector_bound
    elif t > 1:
        x, bound = np.append(x, model[1:]), s.vector_bound
    x = x * min(1.0, bound / max(np.linalg.norm(x), 1e-300))
    r = np.clip(left, -s.residual_bound, s.residual_bound)
    omega = board.arrays["item_weights"][own.items] * board.arrays["learnt"][own.items]
    w = omega / np.sqrt(np.sum(omega**2)) if omega.any() else omega
    norm = np.linalg.norm(w * r) * np.linalg.norm(x)
    f = min(1.0, MARGIN * clip_norm / norm) if norm > 0 else 1.0
    f = f if own.n_ratings else 0.0
    return Row(
        items=own.items,
        weights=on_grid(w, 1.0, 2**14),
        residuals=on_grid(np.sqrt(f) * r, s.residual_bound, 2**12),
        vector=on_grid(np.sqrt(f) * x, bound, 2**12),
    )


def sketch_of(task: Residual, board: Board) -> np.ndarray:
    if "sketch_factors" in board.arrays:
        return board.arrays["sketch_factors"]
    s = task.settings
    rng = np.random.default_rng(s.shared.public_seed)
    draws = rng.standard_normal((board.catalogue.n_items, s.rank), dtype=np.float32)
    return draws * np.float32(0.3 / np.sqrt(s.rank))


def sums_of(task: Residual, cohort: Cohort, board: Board, *, t: int, clip_norm: float) -> Sums:
    width = int(task.settings.has_biases) + (task.settings.rank if t else 0)
    n = cohort.n_items
    linear, curvature = np.zeros((n, width)), np.zeros((n, width, width))
    moment, counts = np.zeros((width, width)), np.zeros(n)
    for j in range(cohort.n_users):
        row = row_of(task, cohort.rows(j, j + 1), board, t=t, clip_norm=clip_norm)
        moment += np.outer(row.vector, row.vector)
        for i, w, r in zip(row.items, row.weights, row.residuals, strict=True):
            linear[i] += w * r * row.vector
            curvature[i] += w * np.outer(row.vector, row.vector)
            counts[i] += w
    return Sums(linear=linear, moment=moment, curvature=curvature, weighted_counts=counts)
