"""Popularity: everybody is recommended the items that most users chose."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.baselines.predictor import require_catalogue
from fedboard.simulations.baselines.ranking import recommend_alike


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularityModel:
    """How many users chose each item. Not private: simulation only."""

    item_counts: FloatArray
    """float64, shape (n_items,), users per item."""

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Each item's count as its score; the history is not looked at. As in ``Predictor``."""
        require_catalogue(history, self.item_counts.size)
        return self.item_counts[items]

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Items by count, the same for all users but for their histories. As in ``Predictor``."""
        return recommend_alike(self.item_counts, history, k=k)


def fit_popularity(train: Cohort) -> PopularityModel:
    """Count the users of each item.

    Args:
        train: implicit feedback; ratings are not looked at. Private.

    Returns:
        The model. Not private: simulation only.
    """
    counts = train.item_counts()
    return PopularityModel(item_counts=counts.astype(np.float64))
