"""The data of the paper's experiments, or what stands for them, and how models are judged on it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data import Triples
from fedboard.simulations.data.splits import RatingSplit
from fedboard.simulations.problem import load_problem
from research.block_solvers.factorisation import Factorisation, Stream, arrange
from research.shared.experiment import Setting
from research.shared.ratings import data_of

DATA = "--data Netflix, Yahoo or any ratings; default ml-1m in $FEDBOARD_DATA, else synthetic."
USER_RIDGE, USER_RIDGE_EXPONENT = 6.0, 0.25


@dataclass(frozen=True, kw_only=True)
class Rated:
    """Ratings to learn from and to judge by: a random tenth, drawn with the split's seed."""

    name: str
    config: SimulationConfig
    train: Cohort
    test: Triples
    rating_range: tuple[float, float]

    @cached_property
    def stream(self) -> Stream:
        """The ratings to learn from, in the solver's order."""
        return arrange(self.train)

    @property
    def described(self) -> str:
        """Which data this is, in words."""
        train = self.train
        counted = f"{train.n_users:,} users, {train.n_items:,} items, {train.n_ratings:,} ratings in training"
        return f"{self.name} ({counted})"

    def error(self, predictions: FloatArray) -> float:
        """RMSE on the test ratings."""
        clipped = np.clip(predictions, *self.rating_range)
        return float(np.sqrt(np.mean((clipped - self.test.values) ** 2)))

    def joint_error(self, model: Factorisation) -> float:
        """Test RMSE of the rows of users and items as they are."""
        return self.error(joint_predictions(model, self.test.users, self.test.items))

    def train_error(self, model: Factorisation) -> float:
        """The same on the ratings that were learnt from."""
        found = joint_predictions(model, self.train.user_of_entry(), self.train.items)
        return float(np.sqrt(np.mean((np.clip(found, *self.rating_range) - self.train.ratings) ** 2)))

    def local_error(self, model: Factorisation) -> float:
        """Test RMSE of users who solve their own vectors from the items' rows alone (eq. 5)."""
        predictor = model.recommender(
            user_ridge=USER_RIDGE, user_ridge_exponent=USER_RIDGE_EXPONENT, rating_range=self.rating_range
        )
        return self.error(predictor.predict(self.train, self.test.users, self.test.items))


def rated(setting: Setting) -> Rated:
    """The user's copy; else MovieLens 1M from ``$FEDBOARD_DATA``, else the synthetic set.

    Raises:
        InputError: the data cannot be read.
    """
    config = SimulationConfig(data=data_of(setting))
    problem = load_problem(config)
    if not isinstance(problem.split, RatingSplit):
        raise TypeError("explicit feedback is split by ratings")
    return Rated(
        name=problem.name,
        config=config,
        train=problem.split.train_and_validation,
        test=problem.split.test,
        rating_range=problem.rating_range,
    )


def joint_predictions(model: Factorisation, users: np.ndarray, items: np.ndarray) -> FloatArray:
    """Unclipped predictions, float64, a few at a time so that no large copies of rows are made."""
    found, biases, factors = np.empty(users.size), model.item_biases(), model.item_factors()
    step = max(1, (1 << 22) // model.items.rank)
    for start in range(0, users.size, step):
        own, shown = users[start : start + step], items[start : start + step]
        inner = np.einsum("pd,pd->p", model.users.factors[own], factors[shown])
        found[start : start + step] = model.mean + model.users.biases[own] + biases[shown] + inner
    return found
