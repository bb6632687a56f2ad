"""Local only: what a device can do with its own history and the public rating range, and nothing else."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.predictor import require_catalogue
from fedboard.simulations.baselines.ranking import recommend_alike


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """Each user's own shrunken mean. Nothing is learnt from other users, so nothing needs protection.

    A user's own ratings say nothing about items that she has not rated, so every item gets the same
    prediction and the recommendations are the catalogue in its order: the floor for any list metric.
    """

    n_items: int
    """Size of the catalogue. Public."""
    rating_range: tuple[float, float]
    """Lowest and highest possible rating. Public."""
    strength: float = 2.0
    """Weight of the range's centre, in ratings; > 0. The best whole number on ml-1m-x12, and flat around it."""

    def __post_init__(self) -> None:
        """Check the public numbers.

        Raises:
            InputError: a strength that is not > 0, or an empty rating range.
        """
        if not self.strength > 0:
            raise InputError(f"strength must be > 0, got {self.strength}")
        if not self.rating_range[0] < self.rating_range[1]:
            raise InputError(f"rating_range must ascend, got {self.rating_range}")

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predict centre + sum_i (y_ij - centre) / (n_j + strength), whatever the item. As in ``Predictor``."""
        require_catalogue(history, self.n_items)
        centre = sum(self.rating_range) / 2
        residuals = history.ratings.astype(np.float64) - centre
        sums = np.bincount(history.user_of_entry(), weights=residuals, minlength=history.n_users)
        means = centre + sums / (history.counts + self.strength)
        return np.clip(means, *self.rating_range)[users]

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """The catalogue in its order without the user's history: all it can do. As in ``Predictor``."""
        return recommend_alike(np.zeros(self.n_items), history, k=k)
