"""One private round of item statistics in plain NumPy, user by user: what the rows for pfl and Flower share.

The round of AdaDPALS as the guide states it. A user solves her vector v from the public board and her ratings,
then gives to each of her items, with weights w whose squares add to 1: w v v^T and w y v, where |v| <= clip_norm
and |y| <= label_bound are enforced. So her stack of the first has norm at most clip_norm^2, that of the second
clip_norm x label_bound; Gaussian noise of so many times the noise multiplier goes onto the sums. Then the server
solves an item's vector: u = (PSD(A) + ridge I)^-1 b. Off-diagonals are carried times sqrt 2, so that norms are
those of the matrices.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np


class Board(NamedTuple):
    """What is public before a round, and the constants of the run."""

    factors: np.ndarray
    mean: float
    weights: np.ndarray
    counts: np.ndarray
    ridge: np.ndarray
    spec: dict[str, Any]


def first_board(spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> Board:
    names = ("item_factors", "item_weights", "item_counts", "item_ridge")
    factors, weights, counts, ridge = (arrays[f"board_{name}"] for name in names)
    return Board(factors, float(arrays["board_mean"][0]), weights, counts, ridge, spec)


def pairs(rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of an upper triangle, and what its entries are multiplied by."""
    rows, columns = np.triu_indices(rank)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def user_part(items: np.ndarray, ratings: np.ndarray, board: Board) -> tuple[np.ndarray, np.ndarray]:
    """One user's clipped part: shapes (n_rated, rank (rank + 1) / 2) and (n_rated, rank)."""
    spec = board.spec
    rated, labels = board.factors[items].astype(np.float64), ratings - board.mean
    ridge = spec["user_ridge"] * max(items.size, 1) ** spec["user_ridge_exponent"]
    system = rated.T @ rated
    system[np.diag_indices(spec["rank"])] += ridge
    vector = np.linalg.solve(system, rated.T @ labels)
    vector *= min(1.0, spec["clip_norm"] / max(float(np.linalg.norm(vector)), 1e-300))
    weights = board.weights[items]
    weights = weights / np.linalg.norm(weights)
    labels = np.clip(labels, -spec["label_bound"], spec["label_bound"])
    rows, columns, scale = pairs(spec["rank"])
    square = vector[rows] * vector[columns] * scale
    return weights[:, None] * square, (weights * labels)[:, None] * vector


def rows_of(
    bounds: np.ndarray, items: np.ndarray, ratings: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each user's items and ratings; users without ratings are left out."""
    for start, stop in pairwise(bounds):
        if stop > start:
            yield items[start:stop], ratings[start:stop]


def sums_of(users: Iterator[tuple[np.ndarray, np.ndarray]], board: Board) -> tuple[np.ndarray, np.ndarray]:
    """Sums over some users: float64, shapes (n_items, rank (rank + 1) / 2) and (n_items, rank)."""
    rank, n_items = board.spec["rank"], board.factors.shape[0]
    quadratic, linear = np.zeros((n_items, rank * (rank + 1) // 2)), np.zeros((n_items, rank))
    for items, ratings in users:
        own_quadratic, own_linear = user_part(items, ratings, board)
        quadratic[items] += own_quadratic  # an item stands once in a row
        linear[items] += own_linear
    return quadratic, linear


def bounds_of(spec: dict[str, Any]) -> tuple[float, float]:
    """What a user's stack of each statistic is at most, in norm."""
    return spec["clip_norm"] ** 2, spec["clip_norm"] * spec["label_bound"]


def noised(
    sums: tuple[np.ndarray, np.ndarray], number: int, spec: dict[str, Any], rng: np.random.Generator
) -> Any:
    """The sums of round ``number``, from 1, with noise."""
    kinds = zip(sums, bounds_of(spec), spec["noise"][number - 1], strict=True)
    return tuple(found + bound * times * rng.standard_normal(found.shape) for found, bound, times in kinds)


def next_board(board: Board, quadratic: np.ndarray, linear: np.ndarray) -> Board:
    """The server's part: matrices made positive, systems solved, factors brought to unit norm, count-weighted."""
    rank = board.spec["rank"]
    rows, columns, scale = pairs(rank)
    matrices = np.empty((quadratic.shape[0], rank, rank))
    matrices[:, rows, columns] = matrices[:, columns, rows] = quadratic / scale
    values, vectors = np.linalg.eigh(matrices)
    values = np.maximum(values, 0.0) + board.ridge[:, None]
    turned = np.einsum("nij,ni->nj", vectors, linear) / values
    factors = np.einsum("nij,nj->ni", vectors, turned)
    norm = np.sqrt(np.sum(np.sum(factors**2, axis=1) * board.counts) / np.sum(board.counts))
    return board._replace(factors=(factors / norm).astype(np.float32))
