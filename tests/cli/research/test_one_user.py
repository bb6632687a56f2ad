"""A run of one user: said what it is before anything is spent, and no empty table."""

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from fedboard.cli.research.summary import metrics_text

Command = Callable[..., Result]


def test_a_run_of_one_user_is_refused_before_anything_is_spent(fedboard: Command, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(
        "user,item,rating\n" + "".join(f"1,{i},{1 + i % 5}\n" for i in range(20))
    )

    refused = fedboard(
        *("simulate", "--data", tmp_path / "one.csv", "--rating-range", "1,5", "--set", "run.kernels=numpy"),
        *("--out", tmp_path / "run"),
    )

    assert refused.exit_code == 2
    assert "one user alone has ratings to learn from" in refused.stderr
    assert not (tmp_path / "run" / "ledger.sqlite").exists()


def test_a_run_that_nothing_was_held_out_from_says_so() -> None:
    told = metrics_text("residual", "epsilon 5", {"metrics": {}})

    assert told.startswith("Nothing was judged: no rating is held out")
