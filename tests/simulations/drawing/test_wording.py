"""Numbers and names as they are written."""

import pytest

from fedboard.simulations.drawing.wording import (
    bucket_names,
    byte_count,
    duration,
    lower_is_better,
    metric_label,
    number,
    percent,
    reading_order,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (5.0, "5"),
        (1000.0, "1000"),
        (400_000, "400\u202f000"),
        (1e-5, "1e-05"),
        (0.88321, "0.8832"),
        (12.3456, "12.35"),
        (-2.5, "-2.500"),
    ],
)
def test_numbers_have_four_significant_digits(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "–"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 2**20, "3 MiB"), (2**31, "2 GiB")],
)
def test_bytes_come_in_binary_units(count: float | None, text: str) -> None:
    assert byte_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (0.42, "0.42 s"), (250, "4 min 10 s"), (7500, "2 h 05 min")]
)
def test_durations_fit_their_size(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_metrics_are_named_and_know_their_direction() -> None:
    assert metric_label("test_rmse") == "Test RMSE (stars)"
    assert metric_label("validation_ndcg@20") == "Validation NDCG@20"
    assert metric_label("recall@20") == "Recall@20"
    assert metric_label("recall") == "Recall, k = 100, 80, 60, 40, 20"
    assert lower_is_better("test_mae")
    assert not lower_is_better("overlap@10")


def test_metrics_come_in_reading_order_whatever_the_file_says() -> None:
    names = ["auc", "ndcg@20", "validation_rmse", "recall@20", "test_mae", "test_rmse", "test_mae"]

    assert reading_order(names) == ["test_rmse", "test_mae", "recall@20", "ndcg@20", "auc", "validation_rmse"]


def test_buckets_carry_their_counts_only_where_all_are_known() -> None:
    assert bucket_names([1, 5, 20_000], 2) == ["0 (tail)\n1–5", "1 (head)\n5–20k"]
    assert bucket_names([1, None, 9], 2) == ["0 (tail)", "1 (head)"]
    assert bucket_names([], 3) == ["0 (tail)", "1", "2 (head)"]


def test_a_missing_share_is_a_dash() -> None:
    assert (percent(0.123), percent(0.0), percent(None)) == ("12.3 %", "0.0 %", "–")


def test_a_small_share_does_not_look_like_nothing() -> None:
    assert percent(0.0001) == "< 0.1 %"
    assert percent(0.0001, 2) == "0.01 %"
