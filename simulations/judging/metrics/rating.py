"""Rating prediction: root mean squared error and mean absolute error, overall and per popularity bucket."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.errors import InputError
from fedboard.simulations.judging.metrics.metric import Better, RatingMetric


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
    bucket = bucket_of_item[items]
    sums = np.bincount(bucket, weights=squared, minlength=n_buckets)
    numbers = np.bincount(bucket, minlength=n_buckets)
    means: FloatArray = np.full(n_buckets, np.nan)
    np.divide(sums, numbers, out=means, where=numbers > 0)
    return np.sqrt(means)


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


METRICS = (
    RatingMetric(
        name="rmse",
        label="RMSE",
        unit="stars",
        means="how far predictions are from held-out ratings: root mean square, so that large errors weigh more",
        better=Better.LOWER,
        of=rmse,
        sliced=sliced_rmse,
    ),
    RatingMetric(
        name="mae",
        label="MAE",
        unit="stars",
        means="how far predictions are from held-out ratings, on average",
        better=Better.LOWER,
        of=mae,
    ),
)
