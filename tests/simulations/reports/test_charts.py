"""Histograms: heights that can be compared, and what is public among them."""

import pytest

from fedboard.simulations.reports.charts import distribution_charts


def histogram(edges: list[float], values: list[float]) -> dict[str, object]:
    return {"edges": edges, "values": values}


def test_exact_counts_make_the_figure_not_private() -> None:
    entry = histogram([1, 2, 4], [1, 3])

    (chart,) = distribution_charts({"counts": {"noisy": entry, "exact": entry}})

    assert chart.held_out


def test_an_unknown_histogram_is_taken_to_be_private() -> None:
    assert distribution_charts({"sizes": {"noisy": histogram([0, 1], [5])}})[0].held_out


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"edges": [1, 2], "values": []},
        {"edges": [1, 2], "values": [1, 2]},
        {"edges": [2, 1, 3], "values": [1, 1]},
        {"edges": [1, 2], "values": [0]},
        {"edges": "1, 2", "values": [1]},
        7,
    ],
)
def test_what_is_no_histogram_is_left_out(entry: object) -> None:
    assert distribution_charts({"counts": {"noisy": entry}}) == []
