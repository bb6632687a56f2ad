"""A person's own model of residual alternating minimisation as the ridge regression that it is."""

import numpy as np

from fedboard.common import kernels
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.ridges import user_ridge
from fedboard.common.tasks.shared.content import content_of
from fedboard.common.tasks.shared.regression import Regression


def regression(settings: ResidualConfig, own: Cohort, board: Board) -> Regression:
    """Ratings around the mean and the item biases on a constant, the item factors, and content where there is any.

    Args:
        settings: public.
        own: her ratings. Private.
        board: public; of version 1 or later.
    """
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    strength = user_ridge(board, settings)
    ridge = strength * max(own.n_ratings, 1) ** settings.user_ridge_exponent
    if not settings.has_biases:
        gram = settings.unobserved_weight * (factors.T @ factors)
        return Regression(vectors=factors, base=np.zeros(factors.shape[0]), ridge=ridge, gram=gram)
    constant = np.full((factors.shape[0], 1), np.sqrt(strength / settings.user_bias_ridge))
    biases = np.asarray(board.arrays["item_biases"], dtype=np.float64)
    base, vectors = float(board.arrays["mean"][0]) + biases, np.hstack([constant, factors])
    content = content_of(board)
    if content is not None:  # scaled, so that one ridge serves for all
        _, chosen = kernels.solve_own_models(
            own.indptr,
            own.items,
            (own.ratings - base[own.items]).astype(np.float32),
            vectors.astype(np.float32),
            content,
            ridge=np.array([ridge], dtype=np.float32),
            backend="numpy",
        )
        vectors = np.hstack([vectors, np.sqrt(ridge / chosen[0]) * content])
    return Regression(vectors=vectors, base=base, ridge=ridge, gram=0.0)
