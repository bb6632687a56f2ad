"""User and item biases: some items are liked more, some users rate higher, and nothing interacts."""

from dataclasses import dataclass

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.item_mean import mean_rating
from fedboard.simulations.baselines.predictor import require_catalogue
from fedboard.simulations.baselines.ranking import recommend_alike


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasConfig:
    """Options of the bias model. Every field is public."""

    rating_range: tuple[float, float]
    """Lowest and highest possible rating."""
    user_ridge: float = 5.0
    """Ridge on user biases, in ratings; > 0. This and the next tuned on ml-1m-x12, and flat there."""
    item_ridge: float = 2.0
    """Ridge on item biases, in ratings; > 0."""
    sweeps: int = 10
    """Rounds of exact alternation. Differences between items settle in about 6; a common shift between user and
    item biases, which cancels in predictions for users with a history, moves on slowly."""
    backend: str = "numpy"
    """Which kernels add up, see ``fedboard.common.kernels``; never changes a result."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        if not self.rating_range[0] < self.rating_range[1]:
            raise InputError(f"rating_range must ascend, got {self.rating_range}")
        if not (self.user_ridge > 0 and self.item_ridge > 0 and self.sweeps >= 1):
            raise InputError(
                "a bias model needs user_ridge > 0, item_ridge > 0 and sweeps >= 1, "
                f"got {self.user_ridge}, {self.item_ridge} and {self.sweeps}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasModel:
    """Global mean and item biases; the user's bias is solved from her history. Not private: simulation only."""

    config: BiasConfig
    mean: float
    """Mean of all training ratings, stars."""
    item_biases: FloatArray
    """float64, shape (n_items,), stars; 0 for an item without ratings."""

    def fit_local(self, history: Cohort) -> FloatArray:
        """Each user's bias, float64, shape (n_users,), stars: c_j = sum_i (y_ij - mean - b_i) / (n_j + ridge).

        Private. A user without history gets 0.
        """
        require_catalogue(history, self.item_biases.size)
        return self._biases_of(history, history.ratings - np.float32(self.mean))

    def _biases_of(self, history: Cohort, centred: Float32Array) -> FloatArray:
        """The same of ratings less their mean: float32, shape (n_ratings,)."""
        sums = kernels.sums_by_row(
            history.indptr, history.items, centred, self.item_biases, backend=self.config.backend
        )
        return np.asarray(sums / (history.counts + self.config.user_ridge))

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predict mean + b_i + c_j, clipped to the rating range. As in ``Predictor``."""
        rating = self.mean + self.item_biases[items] + self.fit_local(history)[users]
        return np.clip(rating, *self.config.rating_range)

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Items by bias: the user's own bias does not change her order. As in ``Predictor``."""
        return recommend_alike(self.item_biases, history, k=k)


def fit_bias(train: Cohort, config: BiasConfig) -> BiasModel:
    """Fit item biases b and user biases c by exact alternation.

    Minimises sum (y_ij - mean - b_i - c_j)^2 + item_ridge |b|^2 + user_ridge |c|^2.

    Args:
        train: explicit ratings. Private.
        config: options. Public.

    Returns:
        The model. Not private: simulation only.

    Raises:
        InputError: no ratings.

    Reference: Y. Koren, R. Bell, C. Volinsky (2009), Matrix factorization techniques for recommender systems.
    """
    counts = train.item_counts()
    model = BiasModel(config=config, mean=mean_rating(train), item_biases=np.zeros(train.n_items))
    centred = train.ratings - np.float32(model.mean)
    for _ in range(config.sweeps):
        own = model._biases_of(train, centred)
        sums = kernels.sums_by_item(
            train.indptr, train.items, centred, own, n_items=train.n_items, backend=config.backend
        )
        model = BiasModel(
            config=config, mean=model.mean, item_biases=np.asarray(sums / (counts + config.item_ridge))
        )
    return model
