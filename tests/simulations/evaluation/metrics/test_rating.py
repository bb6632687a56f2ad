"""Rating errors on lists that one can check by hand, and against obvious loops."""

import math

import numpy as np
import pytest

from fedboard.simulations.evaluation.metrics import mae, rmse, sliced_rmse


def test_errors_of_a_tiny_list() -> None:
    predictions, targets = np.array([3.0, 4.0, 5.0, 1.0]), np.array([3.0, 2.0, 5.0, 2.0])

    assert rmse(predictions, targets) == pytest.approx(math.sqrt(5 / 4))
    assert mae(predictions, targets) == pytest.approx(3 / 4)


def test_predictions_are_clipped_to_the_public_range_only_if_it_is_given() -> None:
    predictions, targets = np.array([7.0, -1.0]), np.array([5.0, 1.0])

    assert rmse(predictions, targets, rating_range=(1.0, 5.0)) == 0.0
    assert rmse(predictions, targets) == 2.0
    assert predictions.tolist() == [7.0, -1.0]


def test_float32_input_is_summed_in_float64() -> None:
    rng = np.random.default_rng(1)
    predictions = rng.uniform(1, 5, 300_000).astype(np.float32)
    targets = rng.uniform(1, 5, 300_000).astype(np.float32)

    expected = math.sqrt(
        math.fsum((float(p) - float(t)) ** 2 for p, t in zip(predictions, targets, strict=True)) / 300_000
    )

    assert rmse(predictions, targets) == pytest.approx(expected, rel=1e-12)


def test_sliced_error_is_the_error_within_each_bucket() -> None:
    rng = np.random.default_rng(2)
    buckets = rng.permutation(np.repeat(np.arange(5, dtype=np.int32), 4))
    items = rng.integers(0, 20, 200).astype(np.int32)
    predictions, targets = rng.uniform(0, 6, 200), rng.uniform(1, 5, 200)

    sliced = sliced_rmse(predictions, targets, items, buckets, rating_range=(1.0, 5.0))

    for bucket in range(5):
        inside = [k for k in range(200) if buckets[items[k]] == bucket]
        expected = rmse(predictions[inside], targets[inside], rating_range=(1.0, 5.0))
        assert sliced[bucket] == pytest.approx(expected)


def test_a_prediction_that_is_not_a_number_shows() -> None:
    assert math.isnan(rmse(np.array([np.nan, 1.0]), np.array([1.0, 1.0]), rating_range=(1.0, 5.0)))
