"""What users give to residual alternating minimisation, with loops: what the tests hold the task against."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.algorithms.residual.algorithm import Residual
from fedboard.common.algorithms.residual.config import Curvature, ResidualConfig, releases_ridges
from fedboard.common.algorithms.residual.device import ItemModel, fit_users
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort

MARGIN = 1.0 - 1e-6
CANDIDATES = (1.5, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0)
MOST_LEFT_OUT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One user's part in a round, in units of the spread but on the public grid."""

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
    ridges: np.ndarray


def on_grid(values: np.ndarray, bound: float, units: int) -> np.ndarray:
    return np.trunc(values / bound * units) * bound / units


def spread_of(settings: ResidualConfig, board: Board) -> float:
    """The unit of residuals; its square is that of ridges."""
    return float(board.arrays["spread"][0]) if settings.has_biases else 1.0


def ridge_of(settings: ResidualConfig, board: Board) -> float:
    if "user_ridge" in board.arrays:
        return float(board.arrays["user_ridge"][0])
    return settings.user_ridge * spread_of(settings, board) ** 2


def own_model(settings: ResidualConfig, own: Cohort, board: Board, factors: np.ndarray) -> np.ndarray:
    """Her bias and her embedding, by the normal equations; returned as the task rounds it, since one unit of the
    grid more or less would hide small mistakes elsewhere.
    """
    u, strength, rank = factors[own.items].astype(np.float64), ridge_of(settings, board), factors.shape[1]
    growth, found = max(own.n_ratings, 1) ** settings.user_ridge_exponent, np.zeros(1 + rank)
    if settings.has_biases:
        columns = np.column_stack([np.ones(own.n_ratings), u])
        ridge = np.diag([settings.user_bias_ridge, *[strength] * rank]) * growth
        found = np.linalg.solve(columns.T @ columns + ridge, columns.T @ unexplained(own, board))
    else:
        everything = factors.astype(np.float64)
        left = u.T @ u + settings.unobserved_weight * everything.T @ everything
        left += strength * growth * np.eye(rank)
        found[1:] = np.linalg.solve(left, u.sum(axis=0))
    model = ItemModel(
        mean=float(board.arrays["mean"][0]), biases=board.arrays["item_biases"], factors=factors
    )
    fitted = fit_users(own, model, settings, backend="numpy", user_ridge=strength)[0]
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
    if t:
        v, sketch, empty = model[1:].copy(), *sketch_of(task, board, t)
        if empty:
            along = own_model(s, own, board, sketch)[1:]
            along = along / max(np.linalg.norm(along.astype(np.float64)), 1e-12)
            v[empty] = along.astype(np.float32) * np.sqrt(len(empty) / s.rank)
        if s.has_biases and len(known_coordinates(task, board, t)) == 1:  # nothing else is measured
            x = np.array([s.vector_bound])
        x, bound = np.append(x, v), s.vector_bound
    x = x * min(1.0, bound / max(np.linalg.norm(x), 1e-300))
    r = np.clip(left / spread_of(s, board), -s.residual_bound, s.residual_bound)
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


def known_coordinates(task: Residual, board: Board, t: int) -> list[int]:
    """Of x_j: the constant, what has factors and what is measured along random ones; all with kept matrices."""
    s = task.settings
    if not s.has_biases or s.curvature is not Curvature.PRIOR:
        return list(range(s.rank + int(s.has_biases)))
    _, sketched = sketch_of(task, board, t)
    learnt = [a for a in range(s.rank) if any(factor != 0.0 for factor in board.arrays["item_factors"][:, a])]
    return [0, *(1 + a for a in range(s.rank) if a in learnt or a in sketched)]


def sketch_of(task: Residual, board: Board, t: int) -> tuple[np.ndarray, list[int]]:
    """Random factors for the coordinates in which there are none yet, and which coordinates these are."""
    s, factors = task.settings, board.arrays["item_factors"]
    if s.has_biases and board.arrays["explores"][0] == 0.0:
        return np.zeros((0, 0)), []
    if t == 1 and "sketch_factors" in board.arrays:
        return board.arrays["sketch_factors"], list(range(s.rank))
    if t > 1 and (not s.has_biases or t > s.rounds * 2 / 3 + 1e-9):
        return np.zeros((0, 0)), []
    empty = [a for a in range(s.rank) if t == 1 or all(factor == 0.0 for factor in factors[:, a])]
    rng = np.random.default_rng(s.shared.public_seed + (t if t > 1 else 0))
    draws = rng.standard_normal((board.catalogue.n_items, len(empty)), dtype=np.float32)
    return draws * np.float32(0.3 / np.sqrt(max(len(empty), 1))), empty


def told_of_ridges(task: Residual, own: Cohort, board: Board) -> np.ndarray:
    """How much better each candidate ridge predicts her ratings, each really left out, than no factors do."""
    s, n, unit = task.settings, own.n_ratings, spread_of(task.settings, board) ** 2
    if n < 2:
        return np.zeros(len(CANDIDATES))
    u, wanted = board.arrays["item_factors"][own.items].astype(np.float64), unexplained(own, board)
    wanted = wanted.astype(np.float64)
    growth = n**s.user_ridge_exponent
    (alone,) = left_out_errors(np.ones((n, 1)), wanted, [[growth * s.user_bias_ridge]])
    columns = np.column_stack([np.ones(n), u])
    ridges = [[growth * s.user_bias_ridge, *[growth * c * unit] * s.rank] for c in CANDIDATES]
    row = np.sqrt(n) * (left_out_errors(columns, wanted, ridges) - alone) / unit
    return on_grid(MARGIN * row / max(np.linalg.norm(row), 1.0), 1.0, 2**20)


def left_out_errors(columns: np.ndarray, wanted: np.ndarray, ridges: list[list[float]]) -> np.ndarray:
    """For each ridge the mean squared error for ratings that are left out in turn, the regression solved again
    without each.
    """
    total, places = np.zeros(len(ridges)), range(0, len(wanted), int(np.ceil(len(wanted) / MOST_LEFT_OUT)))
    for k in places:
        others = np.arange(len(wanted)) != k
        left = columns[others].T @ columns[others] + np.stack([np.diag(ridge) for ridge in ridges])
        found = np.linalg.solve(left, columns[others].T @ wanted[others])
        total += (wanted[k] - found @ columns[k]) ** 2
    return total / len(places)


def sums_of(task: Residual, cohort: Cohort, board: Board, *, t: int, clip_norm: float) -> Sums:
    width = int(task.settings.has_biases) + (task.settings.rank if t else 0)
    n = cohort.n_items
    linear, curvature = np.zeros((n, width)), np.zeros((n, width, width))
    moment, counts, ridges = np.zeros((width, width)), np.zeros(n), np.zeros(len(CANDIDATES))
    for j in range(cohort.n_users):
        row = row_of(task, cohort.rows(j, j + 1), board, t=t, clip_norm=clip_norm)
        square = np.outer(row.vector, row.vector)
        moment += square
        if releases_ridges(task.settings, t):
            ridges += told_of_ridges(task, cohort.rows(j, j + 1), board)
        for i, w, r in zip(row.items, row.weights, row.residuals, strict=True):
            linear[i] += w * r * row.vector
            curvature[i] += w * square
            counts[i] += w
    return Sums(linear=linear, moment=moment, curvature=curvature, weighted_counts=counts, ridges=ridges)
