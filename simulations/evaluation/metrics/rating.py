"""Rating prediction: root mean squared error and mean absolute error, overall and per popularity bucket."""

from collections.abc import Callable
from functools import partial

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics.metric import Better, JudgedRatings, Means, RatingMetric


def rmse(
    predictions: FloatArray | Float32Array,
    targets: FloatArray | Float32Array,
    *,
    rating_range: tuple[float, float] | None = None,
) -> float:
    """Root mean squared error: sqrt(mean((prediction - target)^2)).

    Args:
        predictions: shape (n_test,), stars. A prediction that is not a number makes the metric not a number.
        targets: shape (n_test,), held-out ratings in the same order, stars. Private.
        rating_range: public lowest and highest rating; predictions are clipped to it; None: as they are.

    Returns:
        Stars, >= 0. Not private: simulation only.

    Raises:
        InputError: no ratings, or the two arrays do not pair up.
    """
    return float(np.sqrt(np.mean(np.square(_errors(predictions, targets, rating_range)))))


def mae(
    predictions: FloatArray | Float32Array,
    targets: FloatArray | Float32Array,
    *,
    rating_range: tuple[float, float] | None = None,
) -> float:
    """Mean absolute error: mean(|prediction - target|). Arguments, result and errors as in ``rmse``."""
    return float(np.mean(np.abs(_errors(predictions, targets, rating_range))))


def sliced_rmse(
    predictions: FloatArray | Float32Array,
    targets: FloatArray | Float32Array,
    items: IndexArray,
    bucket_of_item: IndexArray,
    *,
    rating_range: tuple[float, float] | None = None,
) -> FloatArray:
    """Root mean squared error over the test ratings of each popularity bucket.

    Args:
        predictions: shape (n_test,), stars.
        targets: shape (n_test,), held-out ratings in the same order, stars. Private.
        items: int32, shape (n_test,), item of each rating. Private.
        bucket_of_item: int32, shape (n_items,), from ``popularity_buckets``.
        rating_range: as in ``rmse``.

    Returns:
        Stars, float64, shape (n_buckets,), tail to head; NaN for a bucket without test ratings.

    Raises:
        InputError: no ratings, or the arrays do not pair up.

    Reference: Krichene et al. (2023), figures 4 and 8 (arXiv:2302.07975).
    """
    squared = np.square(_errors(predictions, targets, rating_range))
    if items.shape != squared.shape:
        raise InputError("predictions, targets and items must pair up one to one")
    n_buckets = int(bucket_of_item.max()) + 1
    means = Means(n_buckets)
    means.add_values(squared, bucket_of_item[items])
    return np.sqrt(means.means())


def _errors(
    predictions: FloatArray | Float32Array,
    targets: FloatArray | Float32Array,
    rating_range: tuple[float, float] | None,
) -> FloatArray:
    if predictions.shape != targets.shape or predictions.ndim != 1:
        raise InputError("predictions and targets must pair up one to one")
    if predictions.size == 0:
        raise InputError("a rating metric needs at least one held-out rating; check the split")
    # float64 before anything is summed: 600 000 float32 squares lose four digits.
    values = np.asarray(predictions, dtype=np.float64)
    if rating_range is not None:
        values = np.clip(values, *rating_range)
    return np.subtract(values, targets, dtype=np.float64)


class ErrorMeans:
    """Means of a function of the errors; by group of users, or by bucket of items."""

    def __init__(
        self,
        n_groups: int,
        *,
        each: Callable[[FloatArray], FloatArray],
        of_mean: Callable[[FloatArray], FloatArray] = np.positive,
        by_item: bool = False,
    ) -> None:
        """Nothing seen yet.

        Args:
            n_groups: or buckets, where ``by_item``.
            each: of errors, in stars; a function of a module.
            of_mean: makes the metric of a mean; likewise.
            by_item: whether ratings are told apart by their items.
        """
        self._means, self._each, self._of_mean, self._by_item = Means(n_groups), each, of_mean, by_item

    def add(self, seen: JudgedRatings) -> None:
        """Take in a block of users."""
        values = self._each(seen.predicted - seen.actual)
        self._means.add_values(values, seen.buckets if self._by_item else seen.groups)

    def merge(self, other: "ErrorMeans") -> None:
        """Take in another's."""
        self._means.merge(other._means)

    def value(self) -> float:
        """Of all ratings."""
        return float(self._of_mean(np.array(self._means.mean())))

    def values(self) -> FloatArray:
        """Of each group or bucket."""
        return self._of_mean(self._means.means())


_rmse = partial(ErrorMeans, each=np.square, of_mean=np.sqrt)

METRICS = (
    RatingMetric(
        name="rmse",
        label="RMSE",
        unit="stars",
        means="how far predictions are from held-out ratings: root mean square, so that large errors weigh more",
        better=Better.LOWER,
        of=_rmse,
        sliced=partial(_rmse, by_item=True),
    ),
    RatingMetric(
        name="mae",
        label="MAE",
        unit="stars",
        means="how far predictions are from held-out ratings, on average",
        better=Better.LOWER,
        of=partial(ErrorMeans, each=np.abs),
    ),
)
