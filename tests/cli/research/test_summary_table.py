"""The table of a run's metrics, where there are more of them than a terminal has room for."""

from fedboard.cli.research.summary import metrics_text
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.judging.metrics.registry import metric_names


def test_a_wide_table_comes_in_parts_that_each_say_whose_numbers_they_are() -> None:
    names = metric_names(Feedback.IMPLICIT, "test")
    values = {name: 0.1 + place / 100 for place, name in enumerate(names)}
    final = {"metrics": values, "baselines": {"popularity": dict.fromkeys(names[:-1], 0.5)}}

    table = metrics_text("residual", "epsilon 5, delta 1e-05", final).split("\n(on held-out")[0]

    parts = [part.split("\n") for part in table.split("\n\n")]
    assert len(parts) == 2
    assert [name for part in parts for name in part[0].split()[2:]] == list(names)
    assert all(len(line) <= 110 for part in parts for line in part)
    for part in parts:
        assert [line.split()[0] for line in part[1:]] == ["residual", "popularity"]
    run = "residual    epsilon 5, delta 1e-05"
    own = [cell for part in parts for cell in part[1].removeprefix(run).split()]
    assert own == [f"{value:.4f}" for value in values.values()]
    assert parts[-1][2].split()[-1] == "-"


def test_a_narrow_table_stays_one() -> None:
    table = metrics_text("residual", "epsilon 5", {"metrics": {"test_rmse": 1.0, "test_mae": 0.5}})

    assert "\n\n" not in table
    assert table.startswith("model     guarantee  test RMSE  test MAE\n")
