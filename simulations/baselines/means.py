"""What every model that is judged can do: predict ratings and recommend, for users given by their history.

Recommending in one order that is the same for all users.

Item mean: every user gets an item's average rating, pulled towards the global mean where ratings are few.

User and item biases: some items are liked more, some users rate higher, and nothing interacts.

Popularity: everybody is recommended the items that most users chose.

Local only: what a device can do with its own history and the public rating range, and nothing else.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Protocol

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.checks import Positive, require, require_ranges, whole
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.sums import Sums, TrainRows


class Predictor(Protocol):
    """A fitted model, applied on a device: published parameters plus one user's own history.

    Guarantee: what a user gets depends on her own row of ``history`` and on the model only, so evaluation may
    be cut into blocks of users in any way and spread over processes. Implementations are frozen and picklable.
    """

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predicted ratings for (user, item) pairs.

        Args:
            history: what the users are known by, one row a user. Private.
            users: int32, shape (n_pairs,), row numbers in ``history``. Private.
            items: int32, shape (n_pairs,), item numbers. Private.

        Returns:
            float64, shape (n_pairs,), clipped to the public rating range for explicit feedback; scores without
            a unit for implicit feedback.

        Raises:
            InputError: ``history`` is over another catalogue.
        """
        ...

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """The k best items for each user, those of her history excluded.

        Args:
            history: what the users are known by, one row a user. Private.
            k: items per user, >= 1.

        Returns:
            int32, shape (n_users, k), best first, ties to the lower item number; -1 where a user has fewer
            than k candidates.

        Raises:
            InputError: k < 1, or ``history`` is over another catalogue.
        """
        ...


def require_catalogue(history: Cohort, n_items: int) -> None:
    """Refuse a history over another catalogue than the model was fitted to.

    Raises:
        InputError: the sizes differ.
    """
    if history.n_items != n_items:
        raise InputError(
            f"the model was fitted to a catalogue of {n_items} items, the history is over {history.n_items}; "
            "use the catalogue of the training data"
        )


def recommend_alike(scores: FloatArray, history: Cohort, *, k: int) -> IndexArray:
    """The k items of highest score that are not in the user's own history; ties to the lower item number.

    Args:
        scores: float64, shape (n_items,), the same for all users.
        history: items never to recommend, one row a user. Private.
        k: items per user, >= 1.

    Returns:
        int32, shape (n_users, k), best first; -1 where a user has fewer than k candidates.

    Raises:
        InputError: k < 1, or the history is over another catalogue.
    """
    require_catalogue(history, scores.size)
    if k < 1:
        raise InputError(f"k must be >= 1, got {k}")
    order = np.argsort(-scores, kind="stable").astype(np.int32)
    best = np.full((history.n_users, k), -1, dtype=np.int32)
    known = np.zeros(scores.size, dtype=np.bool_)
    for row, (start, stop) in enumerate(zip(history.indptr[:-1], history.indptr[1:], strict=True)):
        own = history.items[start:stop]
        known[own] = True
        # Among the first k + |own| items at most |own| are known, so at least k (or all there are) remain.
        candidates = order[: k + own.size]
        unknown = candidates[~known[candidates]][:k]
        best[row, : unknown.size] = unknown
        known[own] = False
    return best


_ITEM_STRENGTH = 5.0
"""Weight of the global mean, in ratings. On ml-1m-x12 test RMSE is the same to three decimals from 1 to 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemMeanModel:
    """One predicted rating per item. Not private: simulation only."""

    item_means: FloatArray
    """float64, shape (n_items,), stars, within the rating range."""

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Each item's shrunken mean; the history is not looked at. As in ``Predictor``."""
        require_catalogue(history, self.item_means.size)
        return self.item_means[items]

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Items by shrunken mean, the same for all users but for their histories. As in ``Predictor``."""
        return recommend_alike(self.item_means, history, k=k)


def fit_item_mean(train: Cohort | TrainRows, *, rating_range: tuple[float, float]) -> ItemMeanModel:
    """Average each item's ratings together with five ratings at the global mean.

    mean_i = mean + sum_j (y_ij - mean) / (n_i + 5).

    Args:
        train: explicit ratings. Private.
        rating_range: lowest and highest possible rating. Public.

    Returns:
        The model. Not private: simulation only.

    Raises:
        InputError: no ratings.
    """
    counts = TrainRows.of(train).counts
    residuals = counts.item_sums - counts.mean * counts.item_counts
    means = counts.mean + residuals / (counts.item_counts + _ITEM_STRENGTH)
    return ItemMeanModel(item_means=np.clip(means, *rating_range))


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasConfig:
    """Options of the bias model. Every field is public."""

    rating_range: tuple[float, float]
    """Lowest and highest possible rating."""
    user_ridge: Positive = 5.0
    """Ridge on user biases, in ratings. This and the next tuned on ml-1m-x12, and flat there."""
    item_ridge: Positive = 2.0
    """Ridge on item biases, in ratings."""
    sweeps: Annotated[int, whole()] = 10
    """Rounds of exact alternation. Differences between items settle in about 6; a common shift between user and
    item biases, which cancels in predictions for users with a history, moves on slowly."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        require(self.rating_range[0] < self.rating_range[1], "rating_range", "ascending", self.rating_range)
        require_ranges(self)


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
        left = centred - self.item_biases[history.items]
        sums = np.bincount(history.user_of_entry(), weights=left, minlength=history.n_users)
        return np.asarray(sums / (history.counts + self.config.user_ridge))

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predict mean + b_i + c_j, clipped to the rating range. As in ``Predictor``."""
        rating = self.mean + self.item_biases[items] + self.fit_local(history)[users]
        return np.clip(rating, *self.config.rating_range)

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Items by bias: the user's own bias does not change her order. As in ``Predictor``."""
        return recommend_alike(self.item_biases, history, k=k)


def fit_bias(train: Cohort | TrainRows, config: BiasConfig) -> BiasModel:
    """Fit item biases b and user biases c by exact alternation, users' biases made anew in each block.

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
    rows = TrainRows.of(train)
    model = BiasModel(config=config, mean=rows.counts.mean, item_biases=np.zeros(rows.n_items))
    for spans, own in rows.sweeps(config.sweeps):
        shapes = {"residuals": model.item_biases.shape}
        sums = rows.summed(shapes, partial(_add_residuals, model), spans)["residuals"]
        model = replace(model, item_biases=sums / (own.item_counts + config.item_ridge))
    return model


def _add_residuals(model: BiasModel, cohort: Cohort, sums: Sums) -> None:
    centred = cohort.ratings - np.float32(model.mean)
    left = centred - np.repeat(model._biases_of(cohort, centred), cohort.counts)
    sums["residuals"] += np.bincount(cohort.items, weights=left, minlength=cohort.n_items)


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


def fit_popularity(train: Cohort | TrainRows) -> PopularityModel:
    """Count the users of each item.

    Args:
        train: implicit feedback; ratings are not looked at. Private.

    Returns:
        The model. Not private: simulation only.
    """
    return PopularityModel(item_counts=TrainRows.of(train).counts.item_counts)


_LOCAL_STRENGTH = 2.0
"""Weight of the range's centre, in ratings: the best whole number on ml-1m-x12, and flat around it."""


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

    def __post_init__(self) -> None:
        """Check the public numbers.

        Raises:
            InputError: an empty rating range.
        """
        if not self.rating_range[0] < self.rating_range[1]:
            raise InputError(f"rating_range must ascend, got {self.rating_range}")

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Predict centre + sum_i (y_ij - centre) / (n_j + 2), whatever the item. As in ``Predictor``."""
        require_catalogue(history, self.n_items)
        centre = sum(self.rating_range) / 2
        residuals = history.ratings.astype(np.float64) - centre
        sums = np.bincount(history.user_of_entry(), weights=residuals, minlength=history.n_users)
        means = centre + sums / (history.counts + _LOCAL_STRENGTH)
        return np.clip(means, *self.rating_range)[users]

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """The catalogue in its order without the user's history: all it can do. As in ``Predictor``."""
        return recommend_alike(np.zeros(self.n_items), history, k=k)
