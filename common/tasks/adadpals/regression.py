"""A person's own model of AdaDPALS as the ridge regression that it is."""

import numpy as np

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.adadpals.biases import BiasedModel
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.regression import Regression


def regression(settings: AdaDpalsConfig, own: Cohort, board: Board) -> Regression:
    """Ratings around the mean on the item factors, with the unobserved term where there is one.

    Args:
        settings: public.
        own: her ratings. Private.
        board: public; of version 1 or later.
    """
    if settings.biases:
        model = BiasedModel.of(board)
        return Regression(
            vectors=model.spread * model.columns(settings).astype(np.float64),
            base=model.base,
            ridge=model.spread**2
            * settings.user_ridge
            * max(own.n_ratings, 1) ** settings.user_ridge_exponent,
            gram=0.0,
        )
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    explicit = settings.shared.feedback is Feedback.EXPLICIT
    return Regression(
        vectors=factors,
        base=np.full(factors.shape[0], float(board.arrays["mean"][0]) if explicit else 0.0),
        ridge=settings.user_ridge * max(own.n_ratings, 1) ** settings.user_ridge_exponent,
        gram=settings.unobserved_weight * (factors.T @ factors),
    )
