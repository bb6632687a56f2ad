"""Rating errors on lists that one can check by hand, and against obvious loops."""

import math

import numpy as np
import pytest

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.simulations.evaluation.metrics.metric import JudgedRatings, RatingMetric
from fedboard.simulations.evaluation.metrics.registry import metric_of


def errors(
    name: str, predicted: FloatArray, actual: FloatArray, buckets: IndexArray | None = None
) -> tuple[float, FloatArray]:
    metric, alike = metric_of(name), np.zeros(predicted.size, np.int32)
    assert isinstance(metric, RatingMetric)
    assert metric.sliced is not None or buckets is None
    tally = metric.of(1) if buckets is None or metric.sliced is None else metric.sliced(5)
    tally.add(
        JudgedRatings(
            predicted=predicted, actual=actual, groups=alike, buckets=alike if buckets is None else buckets
        )
    )
    return tally.value(), tally.values()


def test_errors_of_a_tiny_list() -> None:
    predictions, targets = np.array([3.0, 4.0, 5.0, 1.0]), np.array([3.0, 2.0, 5.0, 2.0])

    assert errors("rmse", predictions, targets)[0] == pytest.approx(math.sqrt(5 / 4))
    assert errors("mae", predictions, targets)[0] == pytest.approx(3 / 4)


def test_sliced_error_is_the_error_within_each_bucket() -> None:
    rng = np.random.default_rng(2)
    buckets = rng.permutation(np.repeat(np.arange(5, dtype=np.int32), 40))
    predictions, targets = rng.uniform(0, 6, 200), rng.uniform(1, 5, 200)

    sliced = errors("rmse", predictions, targets, buckets)[1]

    for bucket in range(5):
        inside = buckets == bucket
        assert sliced[bucket] == pytest.approx(errors("rmse", predictions[inside], targets[inside])[0])


def test_a_prediction_that_is_not_a_number_shows() -> None:
    assert math.isnan(errors("rmse", np.array([np.nan, 1.0]), np.array([1.0, 1.0]))[0])
