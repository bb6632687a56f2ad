"""One list of metrics: what judges, orders, labels and decides by them reads it."""

import numpy as np
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.drawing.wording import direction, metric_column, metric_label, reading_order
from fedboard.simulations.judging.metrics import mrr_at_k, novelty_at_k
from fedboard.simulations.judging.metrics.metric import LONGEST_LIST, Better, ListMetric
from fedboard.simulations.judging.metrics.registry import (
    LIST_METRICS,
    METRICS,
    RATING_METRICS,
    main_metric,
    main_metrics,
    metric_of,
)


def test_each_metric_is_stated_once_and_is_of_one_kind() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert {*RATING_METRICS, *LIST_METRICS} == set(METRICS)


def test_records_name_metrics_as_they_always_did() -> None:
    names = [name for metric in METRICS for name in metric.names("test")]

    assert names[:6] == ["test_rmse", "test_mae", "recall@20", "recall@50", "ndcg@20", "ndcg@100"]
    assert names[6:] == ["mrr@10", "map@10", "coverage@20", "novelty@20", "gini@20"]
    sliced = [metric.sliced_name("test") for metric in METRICS if metric.sliced is not None]
    assert sliced == ["test_rmse", "recall"]


def test_what_decides_is_the_first_of_its_kind() -> None:
    assert main_metric(Feedback.EXPLICIT, "validation") == "validation_rmse"
    assert main_metric(Feedback.IMPLICIT, "validation") == "recall@20"
    assert main_metrics("test") == ("test_rmse", "recall@20")


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("test_rmse", "rmse"),
        ("validation_mae", "mae"),
        ("recall@50", "recall"),
        ("recall", "recall"),
        ("als_rmse", "rmse"),
        ("overlap@10", None),
        ("seconds_total", None),
    ],
)
def test_a_name_in_a_record_leads_to_its_metric(name: str, metric: str | None) -> None:
    found = metric_of(name)

    assert (None if found is None else found.name) == metric


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_texts_are_those_of_the_entry(metric) -> None:
    for name in metric.names("test"):
        assert metric.label.lower() in metric_label(name).lower()
        assert direction(name) == f"{metric.better} is better"
        assert metric_of(name) is metric


def test_columns_are_short_where_the_part_is_said() -> None:
    columns = {name: metric_column(name) for name in ("test_rmse", "test_mae", "recall@20", "ndcg@20", "auc")}

    assert list(columns.values()) == ["test RMSE", "test MAE", "recall@20", "ndcg@20", "auc"]


def test_the_reading_order_is_that_of_the_registry() -> None:
    names = [name for metric in METRICS for name in metric.names("test")]

    assert [metric_of(name) for name in reading_order(reversed(names))] == [metric_of(name) for name in names]


def test_a_search_is_told_what_can_decide() -> None:
    shown = " ".join(CliRunner().invoke(commands, ["tune", "--help"], terminal_width=200).output.split())

    for name in [name for metric in METRICS for name in metric.names("validation")]:
        assert name in shown
    assert "[default: validation_rmse, or recall@20]" in shown


@pytest.mark.parametrize("at", [(), (0,), (20, LONGEST_LIST + 1)])
def test_lists_are_not_judged_beyond_their_end(at: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=f"must hold lengths in 1..{LONGEST_LIST}"):
        ListMetric(
            name="x", label="x", better=Better.HIGHER, at=at, of=lambda recommended, targets, *, k: np.nan
        )


@pytest.mark.parametrize("functions", [{}, {"of": mrr_at_k, "of_counts": novelty_at_k}])
def test_an_entry_has_one_function(functions) -> None:
    with pytest.raises(InputError, match="metric x: give one function, either `of` or `of_counts`"):
        ListMetric(name="x", label="x", better=Better.HIGHER, at=(20,), **functions)
