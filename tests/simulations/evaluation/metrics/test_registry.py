"""One list of metrics: what judges, orders, labels and decides by them reads it."""

import numpy as np
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.errors import InputError
from fedboard.simulations.evaluation.metrics.metric import LONGEST_LIST, Better, ListMetric
from fedboard.simulations.evaluation.metrics.registry import (
    LIST_METRICS,
    METRICS,
    RATING_METRICS,
    metric_of,
)


def test_each_metric_is_stated_once_and_is_of_one_kind() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert {*RATING_METRICS, *LIST_METRICS} == set(METRICS)


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


def test_a_search_is_told_what_can_decide() -> None:
    shown = " ".join(CliRunner().invoke(commands, ["tune", "--help-all"], terminal_width=200).output.split())

    for name in [name for metric in METRICS for name in metric.names("validation")]:
        assert name in shown
    assert "[default: validation_rmse, or recall@20]" in shown


@pytest.mark.parametrize("at", [(), (0,), (20, LONGEST_LIST + 1)])
def test_lists_are_not_judged_beyond_their_end(at: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=f"must hold lengths in 1..{LONGEST_LIST}"):
        ListMetric(
            name="x", label="x", better=Better.HIGHER, at=at, of=lambda recommended, targets, *, k: np.nan
        )
