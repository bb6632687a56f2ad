"""The directions along which the first alternation measures: random ones, or those of a private pair matrix."""

from functools import lru_cache

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.board import Board
from fedboard.common.tasks.residual.config import ResidualConfig

_SCALE = 0.3  # about the size of learnt factors


def sketch_factors(board: Board, settings: ResidualConfig) -> Float32Array:
    """What devices fit their vectors to in the first alternation; float32, shape (n_items, rank). Public."""
    if "sketch_factors" in board.arrays:
        return np.asarray(board.arrays["sketch_factors"], dtype=np.float32)
    return _random_factors(settings.shared.public_seed, board.catalogue.n_items, settings.rank)


def leading_factors(packed: FloatArray, item_weights: FloatArray, rank: int) -> Float32Array:
    """Item factors along the leading eigenvectors of a noised pair matrix: post-processing.

    The diagonal is left out: it holds the items' own variances, not what they share. Rows are divided by the
    weights omega_i that the pairs carry.

    Args:
        packed: upper triangle, row-major, float64, shape (n_items (n_items + 1) / 2,). Public.
        item_weights: omega, float64, shape (n_items,).
        rank: d.

    Returns:
        float32, shape (n_items, rank).

    Reference: Dwork, Talwar, Thakurta and Zhang (2014), Analyze Gauss.
    """
    from scipy.sparse.linalg import eigsh  # slow to import, and devices never need it

    n_items = item_weights.size
    matrix = np.zeros((n_items, n_items))
    matrix[np.triu_indices(n_items)] = packed
    matrix += matrix.T
    np.fill_diagonal(matrix, 0.0)
    factors, found = np.zeros((n_items, rank)), min(rank, n_items - 1)
    if found == 0:  # one item alone shares nothing with others
        return factors.astype(np.float32)
    values, vectors = eigsh(matrix, k=found, which="LA", v0=np.ones(n_items))
    factors[:, :found] = vectors * np.sqrt(np.maximum(values, 1e-12)) / item_weights[:, None]
    factors *= _SCALE / max(float(np.sqrt(np.mean(np.sum(factors**2, axis=1)))), 1e-12)
    return factors.astype(np.float32)


@lru_cache(maxsize=2)
def _random_factors(seed: int, n_items: int, rank: int) -> Float32Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_items, rank), dtype=np.float32) * np.float32(_SCALE / np.sqrt(rank))
